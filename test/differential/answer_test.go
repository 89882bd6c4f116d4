package differential

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answer is a normalized response: value by path. Elements of lists are sorted, since orders follow hash tables.
type answer map[string]string

// normalize flattens a response of a server into paths and values.
func (h *half) normalize(resp kmsg.Response, err error) answer {
	if err != nil {
		return answer{"Closed": "the connection"}
	}
	out := answer{}
	h.flatten(out, "", reflect.ValueOf(resp).Elem())
	return out
}

// ignored are fields that no two servers have in common.
var ignored = map[string]bool{
	"ThrottleMillis": true, "Version": true, "UnknownTags": true, "ClientHost": true, "LogAppendTime": true,
	"LogStartOffset": true, "LastTimestamp": true, "CoordinatorEpoch": true, "HeartbeatIntervalMillis": true,
	"AuthorizedOperations": true, "CurrentLeader": true, "Brokers": true,
	"OldStyleOffsets": true,
}

func (h *half) flatten(out answer, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			out[path] = "null"
			return
		}
		h.flatten(out, path, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if ignored[f.Name] || f.Name == "LeaderEpoch" && v.Type() == reflect.TypeFor[kmsg.ListOffsetsResponseTopicPartition]() {
				continue
			}
			at := strings.TrimPrefix(path+"."+f.Name, ".")
			if word, ok := h.word(f.Name, v.Field(i).Interface()); ok {
				out[at] = word
				continue
			}
			h.flatten(out, at, v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			out[path] = h.bytes(v.Bytes())
			return
		}
		h.flattenList(out, path, v)
	default:
		text, _ := json.Marshal(v.Interface())
		out[path] = strings.ReplaceAll(string(text), h.tag, "~")
	}
}

func (h *half) flattenList(out answer, path string, v reflect.Value) {
	var elements []answer
	for i := range v.Len() {
		if !h.ours(v.Index(i)) {
			continue
		}
		e := answer{}
		h.flatten(e, "", v.Index(i))
		elements = append(elements, e)
	}
	slices.SortFunc(elements, func(a, b answer) int { return strings.Compare(a.String(), b.String()) })
	for i, e := range elements {
		for p, value := range e {
			out[strings.TrimSuffix(fmt.Sprintf("%s[%d].%s", path, i, strings.TrimPrefix(p, ".")), ".")] = value
		}
	}
	if len(elements) == 0 {
		out[path] = "[]"
	}
}

// ours reports whether an element of a list belongs to this sequence: lists of groups, of transactions and of a
// partition's producers show those of others too.
func (h *half) ours(v reflect.Value) bool {
	switch e := v.Interface().(type) {
	case kmsg.ListGroupsResponseGroup:
		return strings.Contains(e.Group, h.tag)
	case kmsg.ListTransactionsResponseTransactionState:
		return strings.Contains(e.TransactionalID, h.tag)
	case kmsg.DescribeProducersResponseTopicPartitionActiveProducer:
		_, ok := h.symbols[fmt.Sprint("producer ", e.ProducerID)]
		return ok
	}
	return true
}

// word replaces the values of some fields.
func (h *half) word(field string, v any) (string, bool) {
	switch value := v.(type) {
	case string:
		if strings.HasSuffix(field, "MemberID") || field == "LeaderID" {
			return h.member(value), true
		}
	case *string:
		if strings.HasSuffix(field, "MemberID") && value != nil {
			return h.member(*value), true
		}
		if field == "ErrorMessage" {
			return present(value != nil && *value != ""), true
		}
	case [16]byte:
		return h.topicName(value), true
	case int64:
		switch {
		case field == "ProducerID":
			return h.producer(value), true
		case strings.HasSuffix(field, "Timestamp") || strings.HasSuffix(field, "StartOffset"):
			return present(value >= 0), true
		}
	}
	return "", false
}

func present(is bool) string {
	if is {
		return "something"
	}
	return "nothing"
}

func (h *half) member(id string) string {
	if word, ok := h.symbols["member "+id]; ok {
		return word
	}
	if len(id) > 12 {
		return "an unknown member"
	}
	return fmt.Sprintf("%q", id)
}

func (h *half) producer(id int64) string {
	if word, ok := h.symbols[fmt.Sprint("producer ", id)]; ok {
		return word
	}
	return present(id >= 0)
}

func (h *half) topicName(id [16]byte) string {
	if id == [16]byte{} {
		return "no topic"
	}
	for name, other := range h.server.topics {
		if other == id {
			return name
		}
	}
	return "an unknown topic"
}

// bytes shows assignments and subscriptions of consumers with their topics and partitions in order.
func (h *half) bytes(b []byte) string {
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(b); err != nil || len(b) < 6 || len(a.AppendTo(nil)) != len(b) {
		return fmt.Sprintf("%x", b)
	}
	var parts []string
	for _, t := range a.Topics {
		slices.Sort(t.Partitions)
		parts = append(parts, fmt.Sprint(t.Topic, t.Partitions))
	}
	slices.Sort(parts)
	return fmt.Sprintf("v%d %v %x", a.Version, parts, a.UserData)
}

// String lists the paths in order.
func (a answer) String() string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(a)) {
		fmt.Fprintf(&b, "%s=%s ", path, a[path])
	}
	return b.String()
}

// differences lists the paths at which two answers differ. A message where Apache Kafka has none is no difference, nor
// are the messages of elements: clients go by the codes.
func differences(freshet, kafka answer) []string {
	all := maps.Clone(freshet)
	maps.Copy(all, kafka)
	var out []string
	for _, path := range slices.Sorted(maps.Keys(all)) {
		f, inFreshet := freshet[path]
		k, inKafka := kafka[path]
		if strings.HasSuffix(path, "ErrorMessage") && (f == "something" || strings.HasSuffix(path, "].ErrorMessage")) && inKafka {
			continue
		}
		if f != k || inFreshet != inKafka {
			out = append(out, fmt.Sprintf("%s: freshet %s, kafka %s", path, orAbsent(f, inFreshet), orAbsent(k, inKafka)))
		}
	}
	return out
}

func orAbsent(v string, there bool) string {
	if there {
		return v
	}
	return "(absent)"
}
