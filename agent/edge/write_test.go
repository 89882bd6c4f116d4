package edge

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// together answers produces whose body begins with "go" once open is closed, and says so (Request.Answered).
func together(open chan struct{}) handlerFunc {
	return func(ctx context.Context, req *Request) func() Reply {
		body := string(req.Body)
		if !strings.HasPrefix(body, "go") {
			return echo(ctx, req)
		}
		req.Answered = open
		return func() Reply {
			<-open
			return Reply{Head: []byte(body), Silent: body == "go silent", Close: body == "go away"}
		}
	}
}

// TestWrite_AnswersThatAreThereTogetherAreOneWrite has each write of a connection read by itself: a pipe ends a read where
// a write ends.
func TestWrite_AnswersThatAreThereTogetherAreOneWrite(t *testing.T) {
	for name, c := range map[string]struct {
		bodies []string
		writes []string // what each has of the answers' bodies
	}{
		"small ones":                  {[]string{"go 1", "go 2", "go 3"}, []string{"go 1 go 2 go 3"}},
		"up to one that is not known": {[]string{"go 1", "go 2", "other", "go 3"}, []string{"go 1 go 2", "other go 3"}},
		"a silent one at the end":     {[]string{"go 1", "go silent"}, []string{"go 1"}},
		"a silent one between":        {[]string{"go 1", "go silent", "go 2"}, []string{"go 1 go 2"}},
		"before the connection's end": {[]string{"go 1", "go away"}, []string{"go 1 go away"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := make(chan struct{})
				_, p, stop := start(t, Config{Handler: together(open)})
				defer stop()
				conn := p.dial()
				defer conn.Close()
				for i, body := range c.bodies {
					write(t, conn, request(produce, int32(i), body))
				}
				synctest.Wait()
				close(open)
				buffer := make([]byte, smallReply)
				for _, want := range c.writes {
					n, err := conn.Read(buffer)
					require.NoError(t, err)
					require.Equal(t, strings.Fields(want), strings.Fields(bodiesOf(t, buffer[:n])))
				}
			})
		})
	}
}

func TestWrite_LargeAnswersKeepTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		_, p, stop := start(t, Config{Handler: together(open)})
		defer stop()
		conn := p.dial()
		defer conn.Close()
		var bodies []string
		for i := range 100 {
			bodies = append(bodies, "go "+strings.Repeat("x", i*smallReply/50))
			write(t, conn, request(produce, int32(i), bodies[i]))
		}
		synctest.Wait()
		close(open)
		for i, body := range bodies {
			requireResponse(t, conn, int32(i), body)
		}
	})
}

// bodiesOf joins the bodies of whole responses by spaces.
func bodiesOf(t *testing.T, p []byte) string {
	t.Helper()
	var all []string
	for len(p) > 0 {
		size := int(p[0])<<24 | int(p[1])<<16 | int(p[2])<<8 | int(p[3])
		require.GreaterOrEqual(t, len(p), 4+size)
		all = append(all, string(p[8:4+size]))
		p = p[4+size:]
	}
	return strings.Join(all, " ")
}
