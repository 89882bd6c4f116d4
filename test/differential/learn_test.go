package differential

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// learn takes over what an answer says to its client, as a client library does.
func (c *client) learn(req kmsg.Request, resp kmsg.Response) {
	if anyCode(reflect.ValueOf(resp).Elem(), isFencing) {
		c.fenced = true
	}
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		c.learnJoin(req.(*kmsg.JoinGroupRequest), r)
	case *kmsg.SyncGroupResponse:
		c.mustSync = false
		c.learnClassic(r.ErrorCode)
	case *kmsg.HeartbeatResponse:
		c.learnClassic(r.ErrorCode)
	case *kmsg.ConsumerGroupHeartbeatResponse:
		c.learnHeartbeat(req.(*kmsg.ConsumerGroupHeartbeatRequest), r)
	case *kmsg.InitProducerIDResponse:
		if r.ErrorCode == 0 {
			c.awaitEnd()
			c.moveProducer(r.ProducerID, r.ProducerEpoch)
		}
	case *kmsg.EndTxnResponse:
		if r.ErrorCode == 0 {
			c.open = false
			c.awaitEnd()
			if r.Version >= 5 {
				c.moveProducer(r.ProducerID, r.ProducerEpoch)
			}
		}
	case *kmsg.DescribeTransactionsResponse:
		for i := range r.TransactionStates {
			for j := range r.TransactionStates[i].Topics {
				if t := &r.TransactionStates[i].Topics[j]; t.Topic == "__consumer_offsets" {
					t.Partitions = nil // a group's partition there follows from how many there are
				}
			}
		}
	case *kmsg.ListOffsetsResponse:
		for i := range r.Topics[0].Partitions {
			p := &r.Topics[0].Partitions[i]
			p.Offset -= c.base[p.Partition]
		}
	case *kmsg.ProduceResponse:
		c.learnProduce(req.(*kmsg.ProduceRequest), r)
	}
}

func (c *client) learnJoin(req *kmsg.JoinGroupRequest, r *kmsg.JoinGroupResponse) {
	if r.MemberID != "" && r.MemberID != req.MemberID {
		if _, ok := c.symbols["member "+r.MemberID]; !ok {
			c.symbols["member "+r.MemberID] = fmt.Sprintf("member %d of %s", len(c.symbols), c.wire.clientID)
		}
	}
	switch r.ErrorCode {
	case 0:
		c.classicID, c.generation, c.members = r.MemberID, r.Generation, nil
		c.mustJoin, c.mustSync = false, true
		if r.Protocol != nil {
			c.protocol = *r.Protocol
		}
		for _, m := range r.Members {
			c.members = append(c.members, m.MemberID)
		}
	case kerr.MemberIDRequired.Code:
		c.classicID, c.mustJoin = r.MemberID, true
	default:
		c.modern = c.modern && (r.ErrorCode != kerr.UnknownMemberID.Code || len(req.MemberID) != 1)
		c.learnClassic(r.ErrorCode)
	}
}

func (c *client) learnClassic(code int16) {
	switch code {
	case kerr.RebalanceInProgress.Code, kerr.IllegalGeneration.Code:
		c.mustJoin, c.mustSync = true, false
	case kerr.UnknownMemberID.Code:
		c.classicID, c.mustJoin, c.mustSync = "", true, false
	}
}

func (c *client) learnHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest, r *kmsg.ConsumerGroupHeartbeatResponse) {
	switch r.ErrorCode {
	case 0:
		if r.MemberEpoch < 0 {
			if req.MemberID == c.consumerID {
				c.epoch, c.assigned = 0, nil
			}
			return
		}
		c.epoch, c.modern, c.wasModern = r.MemberEpoch, true, true
		if r.Assignment != nil {
			c.assigned = map[string][]int32{}
			for _, t := range r.Assignment.Topics {
				slices.Sort(t.Partitions)
				c.assigned[c.topicName(t.TopicID)] = t.Partitions
			}
		}
	case kerr.FencedMemberEpoch.Code, kerr.UnknownMemberID.Code:
		c.epoch, c.assigned = 0, nil
	}
}

func (c *client) moveProducer(id int64, epoch int16) {
	key := fmt.Sprint("producer ", id)
	if _, ok := c.symbols[key]; !ok {
		c.symbols[key] = fmt.Sprintf("producer %d of %s", len(c.symbols), c.wire.clientID)
	}
	if id != c.producer || epoch != c.producerEpoch {
		c.sequences = [txnPartitions]int32{}
	}
	c.producer, c.producerEpoch, c.fenced = id, epoch, false
}

func (c *client) learnProduce(req *kmsg.ProduceRequest, r *kmsg.ProduceResponse) {
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			p := &r.Topics[i].Partitions[j]
			if p.ErrorCode != 0 {
				continue
			}
			if p.BaseOffset >= 0 {
				p.BaseOffset -= c.base[p.Partition]
			}
			sent := batchHead(req.Topics[i].Partitions[j].Records)
			if sent.producer == c.producer && sent.epoch == c.producerEpoch {
				c.sequences[p.Partition] = max(c.sequences[p.Partition], sent.sequence+1)
			}
		}
	}
}

// isFencing reports whether a producer asks for another epoch after a code.
func isFencing(code int16) bool {
	return code == kerr.InvalidProducerEpoch.Code || code == kerr.ProducerFenced.Code || code == kerr.InvalidProducerIDMapping.Code
}

// awaitEnd waits until the client's transaction is complete: Apache Kafka writes markers after it has answered.
func (c *client) awaitEnd() {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{c.txn(c.traits.id)}
	for end := time.Now().Add(settleLimit); time.Now().Before(end); {
		resp, err := c.control.do(req)
		if err == nil && !transient(resp) {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}
