package testservers

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProcess_DialedTellsWhoseConnectionItIs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	accepted, err := l.Accept()
	require.NoError(t, err)
	defer accepted.Close()

	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	require.True(t, (&Process{cmd: &exec.Cmd{Process: self}}).Dialed(accepted))
	parent, err := os.FindProcess(os.Getppid())
	require.NoError(t, err)
	require.False(t, (&Process{cmd: &exec.Cmd{Process: parent}}).Dialed(accepted))
	require.False(t, (&Process{}).Dialed(accepted))
}
