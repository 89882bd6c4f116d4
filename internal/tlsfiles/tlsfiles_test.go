package tlsfiles_test

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/internal/tlsfiles"
)

func TestFiles_ServerAndClientAuthenticateEachOther(t *testing.T) {
	files := testservers.NewTLSFiles(t)
	f := tlsfiles.Files{CA: files.CA, Cert: files.Cert, Key: files.Key}
	server, err := f.Server(zap.NewNop())
	require.NoError(t, err)
	client, err := f.Client(false, zap.NewNop())
	require.NoError(t, err)
	client.ServerName = "localhost"
	require.NoError(t, handshake(t, server, client))

	stranger, err := tlsfiles.Files{CA: files.CA}.Client(false, zap.NewNop())
	require.NoError(t, err)
	stranger.ServerName = "localhost"
	require.Error(t, handshake(t, server, stranger), "a client without a certificate is refused")
}

func handshake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	done := make(chan error, 1)
	go func() {
		s := tls.Server(a, server)
		err := s.Handshake()
		_ = s.Close()
		done <- err
	}()
	c := tls.Client(b, client)
	err := c.Handshake()
	_, _ = io.Copy(io.Discard, c)
	_ = b.Close()
	if serverErr := <-done; serverErr != nil {
		return serverErr
	}
	return err
}

func TestFiles_RenewedCertificateIsTaken(t *testing.T) {
	old, renewed := testservers.NewTLSFiles(t), testservers.NewTLSFiles(t)
	synctest.Test(t, func(t *testing.T) {
		server, err := tlsfiles.Files{Cert: old.Cert, Key: old.Key}.Server(zap.NewNop())
		require.NoError(t, err)
		leaf := func() []byte {
			c, err := server.GetCertificate(nil)
			require.NoError(t, err)
			return c.Certificate[0]
		}
		first := leaf()
		copyFile(t, renewed.Cert, old.Cert)
		require.Equal(t, first, leaf(), "files are not looked at on every connection")
		time.Sleep(time.Minute)
		require.Equal(t, first, leaf(), "a certificate without its key yet is not taken")
		copyFile(t, renewed.Key, old.Key)
		time.Sleep(time.Minute)
		require.NotEqual(t, first, leaf())
	})
}

// copyFile replaces a file's content and moves its time on, whatever the file system's clock.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, content, 0o600))
	info, err := os.Stat(to)
	require.NoError(t, err)
	later := info.ModTime().Add(time.Hour)
	require.NoError(t, os.Chtimes(to, later, later))
}

func TestFiles_Faults(t *testing.T) {
	none, err := tlsfiles.Files{}.Server(zap.NewNop())
	require.NoError(t, err)
	require.Nil(t, none)
	none, err = tlsfiles.Files{}.Client(false, zap.NewNop())
	require.NoError(t, err)
	require.Nil(t, none)
	forced, err := tlsfiles.Files{}.Client(true, zap.NewNop())
	require.NoError(t, err)
	require.NotNil(t, forced)

	_, err = tlsfiles.Files{Cert: "x"}.Server(zap.NewNop())
	require.ErrorContains(t, err, "certificate and its key")
	for _, half := range []tlsfiles.Files{{Cert: "x"}, {Key: "x"}} {
		_, err = half.Client(false, zap.NewNop())
		require.ErrorContains(t, err, "certificate and its key")
	}
	_, err = tlsfiles.Files{CA: filepath.Join(t.TempDir(), "absent")}.Client(false, zap.NewNop())
	require.ErrorIs(t, err, os.ErrNotExist)
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	_, err = tlsfiles.Files{CA: empty}.Client(false, zap.NewNop())
	require.ErrorContains(t, err, "no certificate in")
}

func TestFiles_TextInPlaceOfFiles(t *testing.T) {
	made := testservers.NewTLSFiles(t)
	text := func(name string) string {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(b)
	}
	f := tlsfiles.Files{CA: text(made.CA), Cert: text(made.Cert), Key: text(made.Key)}
	server, err := f.Server(zap.NewNop())
	require.NoError(t, err)
	client, err := f.Client(false, zap.NewNop())
	require.NoError(t, err)
	client.ServerName = "localhost"
	require.NoError(t, handshake(t, server, client))

	const secret = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
	for _, wrong := range []tlsfiles.Files{{CA: secret}, {Cert: f.Cert, Key: secret}, {Cert: secret, Key: f.Key}, {Cert: made.Cert, Key: secret}} {
		_, err := wrong.Client(false, zap.NewNop())
		require.Error(t, err)
		require.NotContains(t, err.Error(), "c2Vj")
	}
}
