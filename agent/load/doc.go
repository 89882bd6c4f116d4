// Package load measures how busy an agent is, for autoscalers and for the control plane: shares of the CPU, the network
// and the memory that it may use, as the average of the last ten seconds. The largest of them is its utilization.
package load
