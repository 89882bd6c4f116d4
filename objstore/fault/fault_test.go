package fault_test

import (
	"context"
	"fmt"
	"io"
	"math/bits"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/fault"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

func TestBucket_Contract(t *testing.T) {
	objstoretest.Run(t, func(*testing.T) objstore.Bucket { return fault.New(mem.New(), 1) })
}

func TestBucket_DeleteRefused(t *testing.T) {
	b := objstoretest.Refusing("refused")
	objstoretest.Refusal(t, b, "refused")
	outer := fault.New(b, 1)
	outer.MustAdd("delete key=another refuse")
	var some *objstore.DeleteError
	require.ErrorAs(t, outer.Delete(t.Context(), []string{"another", "deleted", "refused"}), &some)
	require.Len(t, some.Failed, 2, "that of the rule and that of the bucket below")
}

const content = "twelve bytes"

func TestBucket_Rules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fault.New(mem.New(), 42)
		datadriven.RunTest(t, "testdata/rules.txt", func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			var out strings.Builder
			switch d.Cmd {
			case "rules":
				b.Clear()
				_, err := b.Add(d.Input)
				require.NoError(t, err)
			case "do":
				for line := range strings.Lines(d.Input) {
					fmt.Fprintln(&out, do(t.Context(), b, strings.TrimSpace(line)))
				}
			case "parse":
				for line := range strings.Lines(d.Input) {
					_, err := fault.Parse(strings.TrimSpace(line))
					fmt.Fprintln(&out, err)
				}
			default:
				t.Fatalf("unknown command %s", d.Cmd)
			}
			return out.String()
		})
	})
}

// do carries out a request such as "put key" and describes what came of it.
func do(ctx context.Context, b objstore.Bucket, line string) string {
	op, key, _ := strings.Cut(line, " ")
	result := "ok"
	var err error
	start := time.Now()
	switch op {
	case "put":
		err = b.Put(ctx, key, objstore.NewBody([]byte(content)))
	case "get":
		result, err = get(ctx, b, key)
	case "head":
		_, err = b.Head(ctx, key)
	case "list":
		_, err = b.List(ctx, key, "", 10)
	case "delete":
		err = b.Delete(ctx, []string{key})
	case "now":
		_, err = b.Now(ctx)
	}
	if err != nil {
		result = err.Error()
	}
	if took := time.Since(start); took > 0 {
		result += ", " + took.String()
	}
	return line + ": " + result
}

func get(ctx context.Context, b objstore.Bucket, key string) (string, error) {
	r, err := b.Get(ctx, key, 0, -1)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return fmt.Sprintf("%d bytes, %v", len(data), err), nil
	}
	differ := 0
	for i := range data {
		differ += bits.OnesCount8(data[i] ^ content[i])
	}
	if differ > 0 {
		return fmt.Sprintf("%d bit differs", differ), nil
	}
	return fmt.Sprintf("ok, %d bytes", len(data)), nil
}

func TestRule_StallUntilReleased(t *testing.T) {
	for _, effect := range []string{"stall", "stall-after"} {
		synctest.Test(t, func(t *testing.T) {
			inner := mem.New()
			b := fault.New(inner, 1)
			rule := b.MustAdd("put " + effect)
			done := make(chan error, 1)
			go func() { done <- b.Put(t.Context(), "k", objstore.NewBody([]byte("x"))) }()
			synctest.Wait()
			require.Equal(t, 1, rule.Hits())
			_, err := inner.Head(t.Context(), "k")
			if effect == "stall" {
				require.ErrorIs(t, err, objstore.ErrNotFound)
			} else {
				require.NoError(t, err)
			}
			require.Empty(t, done)

			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = b.Put(ctx, "cancelled", objstore.NewBody([]byte("x")))
			require.ErrorIs(t, err, objstore.ErrOutcomeUnknown)
			require.ErrorIs(t, err, context.DeadlineExceeded)

			b.Remove(rule)
			require.NoError(t, <-done)
			require.NoError(t, b.Put(t.Context(), "after", objstore.NewBody([]byte("x"))))
			rule.Release()
		})
	}
}

func TestBucket_SameSeedSameFaults(t *testing.T) {
	run := func(seed uint64) (hit []int) {
		b := fault.New(mem.New(), seed)
		b.MustAdd("put throttle p=0.1")
		for i := range 200 {
			if b.Put(t.Context(), fmt.Sprint(i), objstore.NewBody()) != nil {
				hit = append(hit, i)
			}
		}
		return hit
	}
	require.Equal(t, run(1), run(1))
	require.NotEqual(t, run(1), run(2))
	require.InDelta(t, 20, len(run(1)), 12)
}
