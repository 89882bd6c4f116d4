package clients

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/test/harness"
)

// sweep is what TestVersions_Served asks of one API: a request and the code that its answer must have. ids are those
// of the topics "swept" and "gone-<version>".
type sweep struct {
	request func(version int16, ids map[string][16]byte) kmsg.Request
	code    func(kmsg.Response) int16
}

// TestVersions_Served sends every API of the version table in every version served: each answer decodes, uses its
// bytes up, and says that it worked.
func TestVersions_Served(t *testing.T) {
	t.Parallel()
	serveEveryVersion(t, 0)
}

// TestVersions_ServedWithTrailingBytes is TestVersions_Served with a byte after the last field of each request.
func TestVersions_ServedWithTrailingBytes(t *testing.T) {
	t.Parallel()
	serveEveryVersion(t, 1)
}

func serveEveryVersion(t *testing.T, trailing int) {
	t.Helper()
	dev := harness.StartDev(t)
	conn := dial(t, dev.Bootstrap)
	conn.trailing = trailing
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis, create.Topics = 30_000, append(create.Topics, newTopic("swept", 2))
	for v := int16(0); v <= 10; v++ {
		create.Topics = append(create.Topics, newTopic(fmt.Sprint("gone-", v), 1))
	}
	ids := map[string][16]byte{}
	for _, topic := range ask[*kmsg.CreateTopicsResponse](t, conn, create, 7).Topics {
		require.Zero(t, topic.ErrorCode, code(topic.ErrorCode))
		ids[topic.Topic] = topic.TopicID
	}
	sweeps := sweeps()
	for _, entry := range kafkaproto.Table() {
		if entry.Served.Empty() {
			continue
		}
		s, ok := sweeps[entry.Key]
		require.True(t, ok, "%s is served and not swept", entry.Name)
		for v := entry.Served.Min; v <= entry.Served.Max; v++ {
			req := s.request(v, ids)
			require.Equal(t, entry.Key, req.Key())
			resp := ask[kmsg.Response](t, conn, req, v)
			require.Equal(t, "0", code(s.code(resp)), "%s version %d", entry.Name, v)
			require.Equal(t, entry.IsFlexible(v), req.IsFlexible(), "%s version %d", entry.Name, v)
		}
	}
}

// TestVersions_Refused: a version or an API that is not served closes the connection, but ApiVersions.
func TestVersions_Refused(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t)
	for _, entry := range kafkaproto.Table() {
		for _, v := range []int16{entry.Served.Min - 1, entry.Served.Max + 1} {
			req := kmsg.RequestForKey(entry.Key)
			if v < 0 || req == nil || entry.Key == kafkaproto.KeyApiVersions {
				continue
			}
			req.SetVersion(v)
			_, err := dial(t, dev.Bootstrap).do(req)
			require.ErrorIs(t, err, errClosed, "%s version %d", entry.Name, v)
		}
	}
	for _, v := range []int16{6, 99} {
		conn := dial(t, dev.Bootstrap)
		req := kmsg.NewPtrApiVersionsRequest()
		req.SetVersion(v)
		require.NoError(t, conn.send(req))
		body, err := conn.frame(1)
		require.NoError(t, err)
		down := kmsg.NewPtrApiVersionsResponse()
		require.NoError(t, down.ReadFrom(body), "answered in version 0 (KIP-511)")
		require.Equal(t, kerr.UnsupportedVersion.Code, down.ErrorCode)
		require.Len(t, down.ApiKeys, 1)
		require.Equal(t, kafkaproto.KeyApiVersions, down.ApiKeys[0].ApiKey)
		again := ask[*kmsg.ApiVersionsResponse](t, conn, kmsg.NewPtrApiVersionsRequest(), down.ApiKeys[0].MaxVersion)
		require.Equal(t, kerr.InvalidRequest.Code, again.ErrorCode, "the connection goes on, and wants the software's name")
	}
}

// compareRefusals sends each side what closes a connection: versions that are not served, APIs that do not exist, and
// bodies that end too early.
func compareRefusals(t *testing.T, sides []*side) {
	t.Helper()
	for _, s := range sides {
		for _, entry := range kafkaproto.Table() {
			req := kmsg.RequestForKey(entry.Key)
			if req == nil || entry.Key == kafkaproto.KeyApiVersions || entry.Served != entry.Kafka || entry.Served.Empty() {
				continue
			}
			for _, v := range []int16{entry.Served.Min - 1, entry.Served.Max + 1} {
				if v < 0 || entry.Key == kafkaproto.KeyProduce && v > 2 {
					continue
				}
				req.SetVersion(v)
				_, err := dial(t, s.address).do(req)
				require.ErrorIs(t, err, errClosed, "%s version %d at %s", entry.Name, v, s.address)
			}
		}
		for name, frame := range map[string][]byte{
			"unknown API":          {0, 0, 0, 10, 0, 200, 0, 0, 0, 0, 0, 1, 0xff, 0xff},
			"negative API":         {0, 0, 0, 10, 0xff, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff},
			"Produce version 2":    {0, 0, 0, 10, 0, 0, 0, 2, 0, 0, 0, 1, 0xff, 0xff},
			"Metadata, cut":        {0, 0, 0, 12, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0},
			"a count beyond":       {0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 1, 0},
			"no room for a header": {0, 0, 0, 8, 0, 3, 0, 0, 0, 0, 0, 1},
		} {
			conn := dial(t, s.address)
			_, err := conn.Write(frame)
			require.NoError(t, err)
			_, err = conn.frame(1)
			require.ErrorIs(t, err, errClosed, "%s at %s", name, s.address)
		}
	}
}

// first gives the code of the first element, or an error code for an answer without one.
func first[T any](all []T, code func(*T) int16) int16 {
	if len(all) == 0 {
		return kerr.UnknownServerError.Code
	}
	return code(&all[0])
}

func sweeps() map[int16]sweep {
	all := map[int16]sweep{}
	for _, group := range []map[int16]sweep{sweepsOfRecords(), sweepsOfTopics(), sweepsOfConfigs(), sweepsOfCluster(), sweepsOfReplicas(), sweepsOfSecurity(), sweepsOfTransactions(), sweepsOfGroups()} {
		for key, s := range group {
			all[key] = s
		}
	}
	return all
}

func sweepsOfRecords() map[int16]sweep {
	return map[int16]sweep{
		int16(kmsg.Produce): {
			func(_ int16, ids map[string][16]byte) kmsg.Request {
				return produceTo("swept", ids["swept"], 0, batchSpec{}.raw())
			},
			func(r kmsg.Response) int16 { return r.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode },
		},
		int16(kmsg.Fetch): {
			func(_ int16, ids map[string][16]byte) kmsg.Request { return fetchFrom("swept", ids["swept"], 0, 0) },
			func(r kmsg.Response) int16 {
				return first(r.(*kmsg.FetchResponse).Topics, func(t *kmsg.FetchResponseTopic) int16 {
					if len(t.Partitions[0].RecordBatches) == 0 {
						return kerr.OffsetNotAvailable.Code
					}
					return t.Partitions[0].ErrorCode
				})
			},
		},
		int16(kmsg.ListOffsets): {
			func(int16, map[string][16]byte) kmsg.Request { return listOffset("swept", 0, -1) },
			func(r kmsg.Response) int16 { return r.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode },
		},
		int16(kmsg.OffsetForLeaderEpoch): {
			func(int16, map[string][16]byte) kmsg.Request { return epochOf("swept", 0, 0) },
			func(r kmsg.Response) int16 {
				return r.(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0].ErrorCode
			},
		},
		int16(kmsg.InitProducerID): {
			func(int16, map[string][16]byte) kmsg.Request { return kmsg.NewPtrInitProducerIDRequest() },
			func(r kmsg.Response) int16 { return r.(*kmsg.InitProducerIDResponse).ErrorCode },
		},
	}
}

func sweepsOfTopics() map[int16]sweep {
	return map[int16]sweep{
		int16(kmsg.Metadata): {
			func(int16, map[string][16]byte) kmsg.Request { return kmsg.NewPtrMetadataRequest() },
			func(r kmsg.Response) int16 {
				return first(r.(*kmsg.MetadataResponse).Topics, func(t *kmsg.MetadataResponseTopic) int16 { return t.ErrorCode })
			},
		},
		int16(kmsg.CreateTopics): {
			func(v int16, _ map[string][16]byte) kmsg.Request {
				req := kmsg.NewPtrCreateTopicsRequest()
				req.TimeoutMillis, req.Topics = 30_000, append(req.Topics, newTopic(fmt.Sprint("new-", v), 1))
				return req
			},
			func(r kmsg.Response) int16 { return r.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode },
		},
		int16(kmsg.DeleteTopics): {
			func(v int16, ids map[string][16]byte) kmsg.Request {
				req, topic := kmsg.NewPtrDeleteTopicsRequest(), kmsg.NewDeleteTopicsRequestTopic()
				req.TimeoutMillis, topic.TopicID = 30_000, ids[fmt.Sprint("gone-", v)]
				req.TopicNames, req.Topics = append(req.TopicNames, fmt.Sprint("gone-", v)), append(req.Topics, topic)
				return req
			},
			func(r kmsg.Response) int16 { return r.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode },
		},
		int16(kmsg.CreatePartitions): {
			func(v int16, _ map[string][16]byte) kmsg.Request {
				req, topic := kmsg.NewPtrCreatePartitionsRequest(), kmsg.NewCreatePartitionsRequestTopic()
				topic.Topic, topic.Count = "swept", 3+int32(v)
				req.TimeoutMillis, req.Topics = 30_000, append(req.Topics, topic)
				return req
			},
			func(r kmsg.Response) int16 { return r.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode },
		},
		int16(kmsg.DescribeTopicPartitions): {
			func(int16, map[string][16]byte) kmsg.Request {
				req := kmsg.NewPtrDescribeTopicPartitionsRequest()
				req.ResponsePartitionLimit = 2000
				return req
			},
			func(r kmsg.Response) int16 {
				return first(r.(*kmsg.DescribeTopicPartitionsResponse).Topics, func(t *kmsg.DescribeTopicPartitionsResponseTopic) int16 { return t.ErrorCode })
			},
		},
	}
}

func sweepsOfConfigs() map[int16]sweep {
	value := "60000"
	return map[int16]sweep{
		int16(kmsg.DescribeConfigs): {
			func(int16, map[string][16]byte) kmsg.Request { return describeOf("swept").req(nil, 0) },
			func(r kmsg.Response) int16 { return r.(*kmsg.DescribeConfigsResponse).Resources[0].ErrorCode },
		},
		int16(kmsg.AlterConfigs): {
			func(int16, map[string][16]byte) kmsg.Request {
				req, r := kmsg.NewPtrAlterConfigsRequest(), kmsg.NewAlterConfigsRequestResource()
				r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "swept"
				r.Configs = append(r.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: "retention.ms", Value: &value})
				req.Resources = append(req.Resources, r)
				return req
			},
			func(r kmsg.Response) int16 { return r.(*kmsg.AlterConfigsResponse).Resources[0].ErrorCode },
		},
		int16(kmsg.IncrementalAlterConfigs): {
			func(int16, map[string][16]byte) kmsg.Request {
				req, r := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewIncrementalAlterConfigsRequestResource()
				r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "swept"
				r.Configs = append(r.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: "retention.ms", Value: &value})
				req.Resources = append(req.Resources, r)
				return req
			},
			func(r kmsg.Response) int16 { return r.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode },
		},
	}
}

func sweepsOfCluster() map[int16]sweep {
	return map[int16]sweep{
		int16(kmsg.ApiVersions): {
			func(int16, map[string][16]byte) kmsg.Request {
				req := kmsg.NewPtrApiVersionsRequest()
				req.ClientSoftwareName, req.ClientSoftwareVersion = "sweep", "1"
				return req
			},
			func(r kmsg.Response) int16 { return r.(*kmsg.ApiVersionsResponse).ErrorCode },
		},
		int16(kmsg.FindCoordinator): {
			func(v int16, _ map[string][16]byte) kmsg.Request {
				req := kmsg.NewPtrFindCoordinatorRequest()
				req.CoordinatorKey, req.CoordinatorKeys = "group", []string{"group", "another"}
				return req
			},
			func(r kmsg.Response) int16 {
				f := r.(*kmsg.FindCoordinatorResponse)
				if f.Version < 4 {
					return f.ErrorCode
				}
				return first(f.Coordinators, func(c *kmsg.FindCoordinatorResponseCoordinator) int16 { return c.ErrorCode })
			},
		},
		int16(kmsg.DescribeCluster): {
			func(int16, map[string][16]byte) kmsg.Request { return kmsg.NewPtrDescribeClusterRequest() },
			func(r kmsg.Response) int16 { return r.(*kmsg.DescribeClusterResponse).ErrorCode },
		},
		int16(kmsg.DescribeLogDirs): {
			func(int16, map[string][16]byte) kmsg.Request { return kmsg.NewPtrDescribeLogDirsRequest() },
			func(r kmsg.Response) int16 {
				return first(r.(*kmsg.DescribeLogDirsResponse).Dirs, func(d *kmsg.DescribeLogDirsResponseDir) int16 { return d.ErrorCode })
			},
		},
	}
}
