// Package admin answers the Kafka admin APIs that agents forward: topics, partitions, configs, cluster and log
// directory descriptions, producer ids. Each API has one file, which opens with the versions served and what changes
// between them.
//
// Requests are answered on the owner, from its state, with changes by command. An error of Handle means that there is
// no answer for now (the owner is gone, the log is full); errors that Kafka knows are in the response.
//
// # A lost answer
//
// A request whose answer was lost with its owner is sent again to the next one, which cannot know that it took effect:
// creating a topic then gives TOPIC_ALREADY_EXISTS, deleting one UNKNOWN_TOPIC_OR_PARTITION, as a fail-over of
// Kafka's controller does. The changes of one request are handed to the log together, so that nearly always all or
// none of them took effect.
//
// # Bounds
//
// A request has at most kafkaproto.MaxElements names, which may all be equal. The work for a name is done once. Kafka answers some names as
// often as the request has them (DescribeConfigs), merges others (DescribeLogDirs, DeleteRecords), and refuses the rest (CreateTopics).
// So do the handlers here. They count the bytes of an answer that can be larger than its request while they build it: above
// session.MaxAnswerBytes the request is refused. One request makes at most maxChanges changes. Handlers whose work grows with the names
// or the topics read a frozen state, so commits go on.
//
// # What has no meaning here
//
// Any agent serves any partition, and the object store replicates. So replica assignments are checked for form, and then only the number of
// replicas counts. Node ids named in assignments need not exist, since agents come and go. A topic keeps its replication factor, and
// descriptions show as many nodes of each partition, so that tools read back what they set.
package admin
