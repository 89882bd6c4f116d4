package ecosystem

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPage_HasTheVersions compares the versions of docs/works-with.md with the files that name the packages of the tests.
func TestPage_HasTheVersions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/works-with.md")
	require.NoError(t, err)
	for tool, from := range map[string]struct {
		file      string
		artifacts []string
	}{
		"Spring Kafka":                         {"../java/spring/pom.xml", []string{"<artifactId>spring-kafka</artifactId>\n      <version>"}},
		"Apache Flink and its Kafka connector": {"../java/flink/pom.xml", []string{"<artifactId>flink-clients</artifactId>\n      <version>", "<artifactId>flink-connector-kafka</artifactId>\n      <version>"}},
		"Quix Streams":                         {"../python/quix/requirements.txt", []string{"quixstreams=="}},
	} {
		text, err := os.ReadFile(from.file)
		require.NoError(t, err)
		var versions []string
		for _, artifact := range from.artifacts {
			found := regexp.MustCompile(regexp.QuoteMeta(artifact) + `([^<\s]+)`).FindStringSubmatch(string(text))
			require.NotNil(t, found, "%s of %s", artifact, from.file)
			versions = append(versions, found[1])
		}
		require.Contains(t, string(page), "| "+tool+" | "+strings.Join(versions, ", ")+" |")
	}
}
