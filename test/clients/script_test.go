package clients

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
)

// side is one of two servers that get the same requests.
type side struct {
	t       *testing.T // the one that the connection lives as long as
	address string
	conn    *wire
	ids     map[string][16]byte // topics by name
	broker  int32
	cluster string
}

func newSide(t *testing.T, address string) *side {
	s := &side{t: t, address: address, conn: dial(t, address), ids: map[string][16]byte{}}
	s.learn(t)
	return s
}

// learn asks for topic ids, the node id and the cluster id.
func (s *side) learn(t *testing.T) {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	resp := ask[*kmsg.MetadataResponse](t, s.conn, req, 12)
	require.NotEmpty(t, resp.Brokers)
	require.NotNil(t, resp.ClusterID)
	s.broker, s.cluster = resp.Brokers[0].NodeID, *resp.ClusterID
	for _, topic := range resp.Topics {
		s.ids[*topic.Topic] = topic.TopicID
	}
}

// do sends a request; a connection that the server closes for it is replaced.
func (s *side) do(t *testing.T, req kmsg.Request) map[string]string {
	t.Helper()
	resp, err := s.conn.do(req)
	if err != nil {
		if !errors.Is(err, errClosed) {
			require.NoError(t, err)
		}
		s.conn.Close()
		trailing := s.conn.trailing
		s.conn = dial(s.t, s.address)
		s.conn.trailing = trailing
	}
	return digest(resp, err)
}

// step is one request to both servers, in every version that Freshet serves unless it names some.
type step struct {
	name     string
	versions []int16
	req      func(s *side, version int16) kmsg.Request
	// differs says where the answers differ, as a pattern of paths, and why. A difference that is not there fails too.
	differs map[string]string
	// settles: Kafka's broker shows changes a moment after its controller made them, so it is asked again.
	settles bool
}

// only are the versions of a step.
func only(versions ...int16) []int16 { return versions }

// from are the versions of an API from one on.
func from(key kmsg.Key, low int16) []int16 { return between(key, low, 1<<15-1) }

func between(key kmsg.Key, low, high int16) []int16 {
	entry, _ := kafkaproto.Lookup(int16(key))
	var out []int16
	for v := max(low, entry.Served.Min); v <= min(high, entry.Served.Max); v++ {
		out = append(out, v)
	}
	return out
}

// run does the step on both servers and compares.
func (st step) run(t *testing.T, freshet, kafka *side) {
	versions := st.versions
	if versions == nil {
		versions = from(kmsg.Key(st.req(freshet, 1<<15-1).Key()), 0)
	}
	seen := map[string]bool{}
	found := map[string][]int16{} // versions by difference
	for _, version := range versions {
		unexpected := st.compare(t, version, freshet, kafka, seen)
		for end := time.Now().Add(time.Minute); st.settles && len(unexpected) > 0 && time.Now().Before(end); {
			<-time.After(askAgain)
			unexpected = st.compare(t, version, freshet, kafka, seen)
		}
		for _, d := range unexpected {
			found[d] = append(found[d], version)
		}
	}
	for _, d := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("versions %d: %s", found[d], d)
	}
	for pattern, why := range st.differs {
		if !seen[pattern] {
			t.Errorf("no longer different: %s (%s)", pattern, why)
		}
	}
}

// compare asks both and gives the differences that are not expected; the patterns of the others are noted in seen.
func (st step) compare(t *testing.T, version int16, freshet, kafka *side, seen map[string]bool) []string {
	t.Helper()
	answers := make([]map[string]string, 2)
	for i, s := range []*side{freshet, kafka} {
		req := st.req(s, version)
		req.SetVersion(version)
		answers[i] = s.do(t, req)
	}
	var unexpected []string
	for _, d := range differences(answers[0], answers[1]) {
		if pattern := st.expected(d); pattern != "" {
			seen[pattern] = true
			continue
		}
		unexpected = append(unexpected, d)
	}
	return unexpected
}

func (st step) expected(difference string) string {
	for pattern := range st.differs {
		if regexp.MustCompile("^(" + pattern + "): ").MatchString(difference) {
			return pattern
		}
	}
	return ""
}

// askAgain is how long after an answer Kafka is asked again that has not settled.
const askAgain = 10 * time.Millisecond

// code makes tables of codes readable.
func code(c int16) string {
	if err := kerr.TypedErrorForCode(c); err != nil {
		return err.Message
	}
	return fmt.Sprint(c)
}
