package tlsfiles_test

import (
	"encoding/base64"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/internal/tlsfiles"
)

// A key whose text is damaged, or in another form, is a secret still: errors have none of it.
func TestFiles_TextThatIsNoPEMIsNotShown(t *testing.T) {
	made := testservers.NewTLSFiles(t)
	key, err := os.ReadFile(made.Key)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(key)), "\n")
	for name, text := range map[string]string{
		"base64 of the PEM text":  base64.StdEncoding.EncodeToString(key),
		"without BEGIN and END":   strings.Join(lines[1:len(lines)-1], "\n"),
		"four dashes":             strings.Replace(string(key), "-----BEGIN", "----BEGIN", 1),
		"BEGIN with a line break": strings.Replace(string(key), "-----BEGIN ", "-----BEGIN\n", 1),
		"spaces for line breaks":  strings.Join(lines, " "),
		"escaped line breaks":     strings.Join(lines, `\n`),
	} {
		_, err := tlsfiles.Files{Cert: made.Cert, Key: text}.Server(zap.NewNop())
		if err == nil {
			t.Logf("%s: taken", name)
			continue
		}
		if strings.Contains(err.Error(), lines[1][:20]) || strings.Contains(err.Error(), text[:40]) {
			t.Errorf("%s: the error has the key: %.90s...", name, err)
		}
	}
}

// A file whose path has the mark of PEM text is a file.
func TestFiles_HalfTextHalfFile(t *testing.T) {
	made := testservers.NewTLSFiles(t)
	key, err := os.ReadFile(made.Key)
	require.NoError(t, err)
	f := tlsfiles.Files{Cert: made.Cert, Key: string(key)}
	server, err := f.Server(zap.NewNop())
	require.NoError(t, err)
	_, err = server.GetCertificate(nil)
	require.NoError(t, err)
}
