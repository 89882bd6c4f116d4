package assign

// FirstStandIn is the node id that the nodes which stand for zones without agents count down from, in the order of the zones'
// names. Agents' node ids are given in turn from 1, and Java clients give the connection to a group's coordinator the id 2^31-1
// less the node's (AbstractCoordinator): stand-ins are far from both.
const FirstStandIn = 1 << 30
