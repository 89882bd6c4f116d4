package matrix

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/freshet-io/freshet/test/harness"
)

// kcat does the checks with kcat's command line. A check that fails ends the test.
func kcat(t *testing.T, bootstrap, prefix string) map[string]outcome {
	t.Helper()
	outcomes := map[string]outcome{}
	note := func(check string, err error) {
		o := outcome{Check: check, OK: err == nil}
		if err != nil {
			o.Detail = err.Error()
		}
		outcomes[check] = o
	}
	for _, check := range []string{"admin", "transactions"} {
		outcomes[check] = outcome{Check: check, OK: true, None: true}
	}
	note("list", kcatLists(t, bootstrap, prefix))
	for p, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		note(codec, kcatCodec(t, bootstrap, prefix+"-records", codec, p))
	}
	note("group", kcatGroup(t, bootstrap, prefix))
	note("regex", kcatPattern(t, bootstrap, prefix))
	return outcomes
}

func kcatLists(t *testing.T, bootstrap, prefix string) error {
	t.Helper()
	var out bytes.Buffer
	harness.Kcat(t, bootstrap, nil, &out, "-L")
	if want := fmt.Sprintf("topic %q with 5 partitions", prefix+"-records"); !strings.Contains(out.String(), want) {
		return fmt.Errorf("%s is not in the list:\n%s", want, &out)
	}
	return nil
}

func kcatCodec(t *testing.T, bootstrap, topic, codec string, partition int) error {
	t.Helper()
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("%s %d %s", codec, i, strings.Repeat("x", i)))
	}
	in, at := strings.NewReader(strings.Join(want, "\n")+"\n"), fmt.Sprint(partition)
	harness.Kcat(t, bootstrap, in, nil, "-P", "-t", topic, "-p", at, "-z", codec)
	var out bytes.Buffer
	harness.Kcat(t, bootstrap, nil, &out, "-C", "-t", topic, "-p", at, "-o", "beginning", "-e")
	if got := strings.Split(strings.TrimSpace(out.String()), "\n"); !slices.Equal(want, got) {
		return fmt.Errorf("want %d records, got %d", len(want), len(got))
	}
	return nil
}

// kcatPattern reads a record of each topic that a pattern matches.
func kcatPattern(t *testing.T, bootstrap, prefix string) error {
	t.Helper()
	want := []string{prefix + "-regex-a", prefix + "-regex-b"}
	for _, topic := range want {
		harness.Kcat(t, bootstrap, strings.NewReader(topic+"\n"), nil, "-P", "-t", topic, "-p", "0")
	}
	var out bytes.Buffer
	harness.Kcat(t, bootstrap, nil, &out, "-G", prefix+"-regex", "-X", "auto.offset.reset=earliest", "-c", "2", "^"+prefix+"-regex-.*")
	if got := slices.Sorted(strings.FieldsSeq(out.String())); !slices.Equal(want, got) {
		return fmt.Errorf("want %q, got %q", want, got)
	}
	return nil
}

// kcatGroup reads all of a topic as a group of one, twice: the second life goes on where the first one committed.
func kcatGroup(t *testing.T, bootstrap, prefix string) error {
	t.Helper()
	for _, word := range []string{"first", "second"} {
		harness.Kcat(t, bootstrap, strings.NewReader(word+"\n"), nil, "-P", "-t", prefix+"-shared", "-p", "1")
		var out bytes.Buffer
		harness.Kcat(t, bootstrap, nil, &out, "-G", prefix+"-group", "-X", "auto.offset.reset=earliest", "-c", "1", prefix+"-shared")
		if got := strings.TrimSpace(out.String()); got != word {
			return fmt.Errorf("want %q, got %q", word, got)
		}
	}
	return nil
}
