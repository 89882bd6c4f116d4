package clients

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// digest flattens an answer into path=value, with what two clusters cannot have in common (ids, addresses, times)
// replaced by a word. A connection that was closed has the one path "closed".
func digest(resp kmsg.Response, err error) map[string]string {
	if err != nil {
		return map[string]string{"closed": err.Error()}
	}
	out := map[string]string{}
	flatten(out, "", reflect.ValueOf(resp).Elem())
	return out
}

// words replace values of fields by their names; a missing id or node stays what it is.
var words = map[string]func(v any) string{
	"ThrottleMillis":         func(any) string { return "" },
	"Version":                func(any) string { return "" },
	"UnknownTags":            func(any) string { return "" },
	"Host":                   func(any) string { return "a host" },
	"Port":                   func(any) string { return "a port" },
	"ClusterID":              func(any) string { return "a cluster" },
	"Rack":                   func(any) string { return "a rack" },
	"NodeID":                 node,
	"ControllerID":           node,
	"LeaderID":               node,
	"Leader":                 node,
	"LeaderEpoch":            func(any) string { return "an epoch" },
	"LogDir":                 func(any) string { return "a directory" },
	"Dir":                    func(any) string { return "a directory" },
	"ProducerID":             node,
	"FinalizedFeaturesEpoch": func(any) string { return "an epoch" },
	"LogAppendTime":          func(v any) string { return present(v.(int64) > 0, "a time", fmt.Sprint(v)) },
	"ErrorMessage":           message,
	"TopicID":                func(v any) string { return present(v.([16]byte) != [16]byte{}, "an id", "no id") },
}

func node(v any) string {
	if member, ok := v.(string); ok { // JoinGroup's leader
		return fmt.Sprintf("%q", member)
	}
	return present(reflect.ValueOf(v).Int() >= 0, "a node", fmt.Sprint(v))
}

// message: whether there is one, not its words.
func message(v any) string {
	text, _ := v.(*string)
	return present(text != nil && *text != "", "a message", "no message")
}

func present(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func flatten(out map[string]string, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			out[path] = "null"
			return
		}
		flatten(out, path, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			at := strings.TrimPrefix(path+"."+f.Name, ".")
			if word, ok := words[f.Name]; ok {
				if w := word(v.Field(i).Interface()); w != "" {
					out[at] = w
				}
				continue
			}
			flatten(out, at, v.Field(i))
		}
	case reflect.Slice:
		flattenSlice(out, path, v)
	default:
		text, _ := json.Marshal(v.Interface())
		out[path] = string(text)
	}
}

func flattenSlice(out map[string]string, path string, v reflect.Value) {
	if strings.HasSuffix(path, "RecordBatches") {
		out[path] = fmt.Sprintf("%x", withoutLeaderEpochs(v.Bytes()))
		return
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		out[path] = fmt.Sprintf("%x", v.Bytes())
		return
	}
	if v.Type().Elem().Kind() == reflect.Int32 && nodes.MatchString(path) {
		out[path] = fmt.Sprintf("%d nodes", v.Len())
		return
	}
	count := v.Len()
	for i := range v.Len() {
		name := name(v.Index(i), i)
		if slices.Contains(brokerTopics, name) || strings.HasSuffix(path, "Configs") && strings.HasPrefix(name, ownConfigs) {
			count--
			continue
		}
		flatten(out, fmt.Sprintf("%s[%s]", path, name), v.Index(i))
	}
	out[path+"#"] = fmt.Sprint(count)
}

// ownConfigs is how the names of topic configs begin that Kafka has not.
const ownConfigs = "freshet."

// brokerTopics are those in which Kafka's brokers keep groups and transactions; they come to be with the first of these.
var brokerTopics = []string{"__consumer_offsets", "__transaction_state"}

var nodes = regexp.MustCompile(`(Replicas|ISR|LastKnownELR)$`)

// name is what an element is called in paths: its name where it has one (orders differ), else its place.
func name(v reflect.Value, i int) string {
	if v.Kind() != reflect.Struct {
		return fmt.Sprint(i)
	}
	for _, field := range []string{"Topic", "Name", "ResourceName", "ApiKey", "User", "Partition"} {
		f := v.FieldByName(field)
		if f.IsValid() && f.Kind() == reflect.Pointer && !f.IsNil() {
			f = f.Elem()
		}
		if f.IsValid() && f.Kind() != reflect.Pointer {
			return fmt.Sprint(f.Interface())
		}
	}
	return fmt.Sprint(i)
}

// differences lists the paths at which two digests differ.
func differences(freshet, kafka map[string]string) []string {
	all := maps.Clone(freshet)
	maps.Copy(all, kafka)
	var out []string
	for _, path := range slices.Sorted(maps.Keys(all)) {
		f, inFreshet := freshet[path]
		k, inKafka := kafka[path]
		if strings.HasSuffix(path, "ErrorMessage") && f == "a message" && inKafka {
			continue // Kafka says nothing at many places; a message more harms nobody
		}
		if f != k || inFreshet != inKafka {
			out = append(out, fmt.Sprintf("%s: freshet %q, kafka %q", path, orAbsent(f, inFreshet), orAbsent(k, inKafka)))
		}
	}
	return out
}

func orAbsent(v string, there bool) string { return present(there, v, "(absent)") }

// withoutLeaderEpochs sets the leader epoch of record batches to 0: it is outside of the checksum, and -1 in Freshet.
func withoutLeaderEpochs(p []byte) []byte {
	p = bytes.Clone(p)
	for rest := p; len(rest) >= 61; {
		clear(rest[12:16])
		rest = rest[min(len(rest), 12+int(binary.BigEndian.Uint32(rest[8:]))):]
	}
	return p
}
