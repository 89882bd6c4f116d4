// Package view is what an agent knows of its virtual cluster: the catalogue (topics, members, configs) and, for the
// partitions it reads, windows of extents below the high watermark. Both are fed by the session stream with the
// owner, in log order, and both can say how fresh they are (I4): an answer about an absence or an end rests on a
// probe of the owner that was sent after the request arrived, or on a look-up of its own.
package view
