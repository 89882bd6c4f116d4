package verify

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/bench/verify/oracle"
)

// planted is one fault and the classes that it must be found as.
type planted struct {
	name  string
	want  []oracle.Class
	set   func(c *Config)
	plant func(f *faulty)
}

// foundIn tells whether a run found the fault as what it is.
func (p planted) foundIn(r Report) bool {
	return !slices.ContainsFunc(p.want, func(c oracle.Class) bool { return r.Classes[c] == 0 })
}

// late is how many requests of a kind pass before a fault is planted, so that there is something to be wrong about.
const late = 5

// every gives a function that is true from the nth call on; once is true at the nth only.
func after(n int) func() bool { return func() bool { n--; return n < 0 } }

func once(n int) func() bool { return func() bool { n--; return n == 0 } }

// writeFaults are planted in what brokers write. They take the producer ids out of the batches, or the broker would
// refuse what is made of them.
var writeFaults = []planted{
	{
		name: "an acknowledged batch is not written", want: []oracle.Class{oracle.Lost},
		set: func(c *Config) { c.Partitions = 1 },
		plant: func(f *faulty) {
			var next int64
			now := once(late)
			f.answer = func(_ kmsg.Request, resp kmsg.Response) { remember(resp, &next) }
			f.request = func(req kmsg.Request) (kmsg.Response, bool) {
				stripped(req)
				if r, ok := req.(*kmsg.ProduceRequest); ok && onePartition(r) == 0 && next > 0 && now() {
					return acknowledge(r, next), false
				}
				return nil, false
			}
		},
	},
	{
		name: "a batch is written twice", want: []oracle.Class{oracle.Duplicate},
		plant: func(f *faulty) {
			now := once(late)
			f.request = func(req kmsg.Request) (kmsg.Response, bool) { stripped(req); return nil, false }
			f.again = func(req kmsg.Request) bool { return req.Key() == 0 && now() }
		},
	},
	{
		name: "two records change places", want: []oracle.Class{oracle.Reordered},
		plant: func(f *faulty) {
			done := false
			f.request = func(req kmsg.Request) (kmsg.Response, bool) {
				produced(req, func(p *kmsg.ProduceRequestTopicPartition) {
					p.Records = change(p.Records, func(b *kmsg.RecordBatch, records []kmsg.Record) []kmsg.Record {
						if !done && len(records) > 1 {
							done, records = true, swap(records)
						}
						return withoutProducer(b, records)
					})
				})
				return nil, false
			}
		},
	},
	{
		name: "a record that nobody sent", want: []oracle.Class{oracle.Phantom},
		plant: func(f *faulty) {
			now := once(late)
			f.request = func(req kmsg.Request) (kmsg.Response, bool) {
				produced(req, func(p *kmsg.ProduceRequestTopicPartition) {
					p.Records = change(p.Records, func(b *kmsg.RecordBatch, records []kmsg.Record) []kmsg.Record {
						if now() {
							n := int32(len(records))
							b.LastOffsetDelta++
							records = append(records, kmsg.Record{OffsetDelta: n, Key: []byte("k"), Value: []byte("nobody sent this")})
						}
						return withoutProducer(b, records)
					})
				})
				return nil, false
			}
		},
	},
	{
		name: "a record's content is changed", want: []oracle.Class{oracle.Phantom, oracle.Lost},
		plant: func(f *faulty) {
			now := once(late)
			f.request = func(req kmsg.Request) (kmsg.Response, bool) {
				produced(req, func(p *kmsg.ProduceRequestTopicPartition) {
					p.Records = change(p.Records, func(b *kmsg.RecordBatch, records []kmsg.Record) []kmsg.Record {
						if now() {
							records[0].Value[len(records[0].Value)-1] ^= 1
						}
						return withoutProducer(b, records)
					})
				})
				return nil, false
			}
		},
	},
	{
		name: "batches go to one another's partition", want: []oracle.Class{oracle.Phantom},
		plant: func(f *faulty) {
			now := once(late)
			f.request = func(req kmsg.Request) (kmsg.Response, bool) {
				stripped(req)
				if r, ok := req.(*kmsg.ProduceRequest); ok && len(r.Topics[0].Partitions) > 1 && now() {
					p := r.Topics[0].Partitions
					p[0].Records, p[1].Records = p[1].Records, p[0].Records
				}
				return nil, false
			}
		},
	},
	{
		name: "a wrong offset is answered", want: []oracle.Class{oracle.WrongOffset},
		plant: func(f *faulty) {
			now := once(late)
			f.answer = func(_ kmsg.Request, resp kmsg.Response) {
				if r, ok := resp.(*kmsg.ProduceResponse); ok && now() {
					r.Topics[0].Partitions[0].BaseOffset += 3
				}
			}
		},
	},
}

// readFaults are planted in what brokers answer about records.
var readFaults = []planted{
	{
		name: "a stored batch is not given out", want: []oracle.Class{oracle.Lost, oracle.Gap},
		plant: func(f *faulty) { f.answer = hide(false) },
	},
	{
		name: "another reading gives other records", want: []oracle.Class{oracle.Reuse},
		set: func(c *Config) { c.Groups = 0; c.Partitions = 1 },
		plant: func(f *faulty) {
			var times byte // no two readings are alike, so that it does not matter whose is the first
			f.answer = func(_ kmsg.Request, resp kmsg.Response) {
				fetched(resp, func(p *kmsg.FetchResponseTopicPartition) {
					if resp.GetVersion() <= probeVersion || len(p.RecordBatches) == 0 || baseOffset(p.RecordBatches) != 0 {
						return
					}
					times++
					p.RecordBatches = append(change(splitBatches(p.RecordBatches)[0], func(_ *kmsg.RecordBatch, r []kmsg.Record) []kmsg.Record {
						r[0].Value[len(r[0].Value)-1] ^= times
						return r
					}), p.RecordBatches[len(splitBatches(p.RecordBatches)[0]):]...)
				})
			}
		},
	},
	{
		name: "an old end is answered", want: []oracle.Class{oracle.Stale},
		plant: func(f *faulty) {
			now := after(late)
			f.answer = func(req kmsg.Request, resp kmsg.Response) {
				if r, ok := resp.(*kmsg.ListOffsetsResponse); ok && len(r.Topics) == 1 && len(r.Topics[0].Partitions) == 1 && now() {
					r.Topics[0].Partitions[0].Offset = max(0, r.Topics[0].Partitions[0].Offset-5)
				}
			}
		},
	},
	{
		name: "an old high watermark is answered", want: []oracle.Class{oracle.Stale},
		plant: func(f *faulty) {
			f.answer = func(_ kmsg.Request, resp kmsg.Response) {
				fetched(resp, func(p *kmsg.FetchResponseTopicPartition) {
					if resp.GetVersion() <= probeVersion {
						p.HighWatermark = 0
					}
				})
			}
		},
	},
	{
		name: "nothing is answered below the end", want: []oracle.Class{oracle.Stale},
		plant: func(f *faulty) {
			f.answer = func(_ kmsg.Request, resp kmsg.Response) {
				fetched(resp, func(p *kmsg.FetchResponseTopicPartition) {
					if resp.GetVersion() <= probeVersion {
						p.RecordBatches = nil
					}
				})
			}
		},
	},
	{
		name: "an offset below the end is out of range", want: []oracle.Class{oracle.Stale},
		plant: func(f *faulty) {
			now := once(late)
			f.answer = func(_ kmsg.Request, resp kmsg.Response) {
				fetched(resp, func(p *kmsg.FetchResponseTopicPartition) {
					if len(p.RecordBatches) > 0 && now() {
						p.RecordBatches, p.ErrorCode = nil, 1
					}
				})
			}
		},
	},
}

// transactionFaults need transactional producers.
var transactionFaults = []planted{
	{
		name: "an aborted transaction's records are given out", want: []oracle.Class{oracle.AbortedRead},
		plant: func(f *faulty) {
			f.answer = func(_ kmsg.Request, resp kmsg.Response) {
				fetched(resp, func(p *kmsg.FetchResponseTopicPartition) { p.AbortedTransactions = nil })
			}
		},
	},
	{
		name: "a committed transaction is not whole", want: []oracle.Class{oracle.Torn},
		set:   func(c *Config) { c.Aborts = 0.01 },
		plant: func(f *faulty) { f.answer = hide(true) },
	},
	{
		name: "a commit is answered and aborted", want: []oracle.Class{oracle.Lost},
		plant: func(f *faulty) {
			now := once(late)
			f.request = func(req kmsg.Request) (kmsg.Response, bool) {
				if r, ok := req.(*kmsg.EndTxnRequest); ok && r.Commit && now() {
					r.Commit = false
				}
				return nil, false
			}
		},
	},
	{
		name: "an abort is answered and committed", want: []oracle.Class{oracle.AbortedRead},
		set: func(c *Config) { c.Aborts = 0.8 },
		plant: func(f *faulty) {
			f.request = func(req kmsg.Request) (kmsg.Response, bool) {
				if r, ok := req.(*kmsg.EndTxnRequest); ok {
					r.Commit = true
				}
				return nil, false
			}
		},
	},
}

// groupFaults are planted in what coordinators answer.
var groupFaults = []planted{
	{
		name: "a commit is answered and forgotten", want: []oracle.Class{oracle.LostCommit},
		plant: func(f *faulty) {
			now := after(late)
			f.request = func(req kmsg.Request) (kmsg.Response, bool) {
				r, ok := req.(*kmsg.OffsetCommitRequest)
				if !ok || !now() {
					return nil, false
				}
				resp := r.ResponseKind().(*kmsg.OffsetCommitResponse)
				for _, t := range r.Topics {
					rt := kmsg.NewOffsetCommitResponseTopic()
					rt.Topic, rt.TopicID = t.Topic, t.TopicID
					for _, p := range t.Partitions {
						rp := kmsg.NewOffsetCommitResponseTopicPartition()
						rp.Partition = p.Partition
						rt.Partitions = append(rt.Partitions, rp)
					}
					resp.Topics = append(resp.Topics, rt)
				}
				return resp, false
			}
		},
	},
	{
		name: "an old commit is answered", want: []oracle.Class{oracle.LostCommit},
		plant: func(f *faulty) {
			now := after(late)
			f.answer = func(_ kmsg.Request, resp kmsg.Response) {
				r, ok := resp.(*kmsg.OffsetFetchResponse)
				if !ok || !now() {
					return
				}
				for _, g := range r.Groups {
					for i := range g.Topics {
						for j := range g.Topics[i].Partitions {
							g.Topics[i].Partitions[j].Offset = min(1, g.Topics[i].Partitions[j].Offset)
						}
					}
				}
			}
		},
	},
	{
		name: "a group begins behind what it has read", want: []oracle.Class{oracle.Lost},
		plant: func(f *faulty) {
			now := after(late)
			f.request = func(req kmsg.Request) (kmsg.Response, bool) {
				if r, ok := req.(*kmsg.OffsetCommitRequest); ok && now() {
					for i := range r.Topics {
						for j := range r.Topics[i].Partitions {
							r.Topics[i].Partitions[j].Offset += 3 // and not beyond the end by the time that the next member begins
						}
					}
				}
				return nil, false
			}
		},
	},
	{
		name: "a partition is given to all members", want: []oracle.Class{oracle.TwoOwners},
		plant: func(f *faulty) {
			var topic string
			f.request = func(req kmsg.Request) (kmsg.Response, bool) {
				if r, ok := req.(*kmsg.MetadataRequest); ok && len(r.Topics) > 0 && r.Topics[0].Topic != nil {
					topic = *r.Topics[0].Topic
				}
				return nil, false
			}
			f.answer = func(_ kmsg.Request, resp kmsg.Response) {
				if r, ok := resp.(*kmsg.SyncGroupResponse); ok && len(r.MemberAssignment) > 0 {
					r.MemberAssignment = assignment(topic, 0)
				}
			}
		},
	},
	{
		name: "a group is described with two owners of a partition", want: []oracle.Class{oracle.TwoOwners},
		plant: func(f *faulty) {
			f.answer = func(_ kmsg.Request, resp kmsg.Response) {
				r, ok := resp.(*kmsg.DescribeGroupsResponse)
				if !ok || len(r.Groups) == 0 || len(r.Groups[0].Members) < 2 {
					return
				}
				r.Groups[0].Members[0].MemberAssignment = r.Groups[0].Members[1].MemberAssignment
			}
		},
	},
}

// probeVersion is the last version of Fetch that the prober speaks, and no other client.
const probeVersion = 12

// stripped takes the producer's id out of all batches.
func stripped(req kmsg.Request) {
	produced(req, func(p *kmsg.ProduceRequestTopicPartition) { p.Records = change(p.Records, withoutProducer) })
}

// onePartition gives the partition of a request that is for one only; -1 otherwise.
func onePartition(r *kmsg.ProduceRequest) int32 {
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return -1
	}
	return r.Topics[0].Partitions[0].Partition
}

// remember notes the offset after the last one that partition 0 acknowledged.
func remember(resp kmsg.Response, next *int64) {
	r, ok := resp.(*kmsg.ProduceResponse)
	if !ok {
		return
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if p.Partition == 0 {
				*next = p.BaseOffset + 1
			}
		}
	}
}

// acknowledge answers a produce to one partition.
func acknowledge(r *kmsg.ProduceRequest, offset int64) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.ProduceResponse)
	t, p := kmsg.NewProduceResponseTopic(), kmsg.NewProduceResponseTopicPartition()
	t.Topic, t.TopicID = r.Topics[0].Topic, r.Topics[0].TopicID
	p.Partition, p.BaseOffset, p.LogAppendTime = r.Topics[0].Partitions[0].Partition, offset, -1
	t.Partitions = append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
	return resp
}

// hide leaves batches of partition 0 out of fetches: the one at offset 3 or behind, and of transactions every third.
func hide(transactions bool) func(kmsg.Request, kmsg.Response) {
	hidden := map[int64]bool{}
	var highest int64
	return func(req kmsg.Request, resp kmsg.Response) {
		r, ok := req.(*kmsg.FetchRequest)
		if !ok || (transactions && r.IsolationLevel == 0) || resp.GetVersion() <= probeVersion {
			return
		}
		fetched(resp, func(p *kmsg.FetchResponseTopicPartition) {
			if p.Partition != 0 {
				return
			}
			var left []byte
			for i, b := range splitBatches(p.RecordBatches) {
				at := baseOffset(b)
				if at > highest && !isControl(b) && (len(hidden) == 0 || transactions && i%3 == 0) && at >= 3 {
					hidden[at] = true
				}
				highest = max(highest, at)
				if !hidden[at] {
					left = append(left, b...)
				}
			}
			p.RecordBatches = left
		})
	}
}

func assignment(topic string, partition int32) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	t := kmsg.NewConsumerMemberAssignmentTopic()
	t.Topic, t.Partitions = topic, []int32{partition}
	a.Topics = append(a.Topics, t)
	return a.AppendTo(nil)
}

func TestRun_FindsFaultsOfWriting(t *testing.T) { findEach(t, writeFaults, false) }

func TestRun_FindsFaultsOfReading(t *testing.T) { findEach(t, readFaults, false) }

func TestRun_FindsFaultsOfTransactions(t *testing.T) { findEach(t, transactionFaults, true) }

func TestRun_FindsFaultsOfGroups(t *testing.T) { findEach(t, groupFaults, false) }
