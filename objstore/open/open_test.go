package open_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/file"
	"github.com/freshet-io/freshet/objstore/latency"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/open"
	"github.com/freshet-io/freshet/objstore/s3"
)

func TestBucket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	t.Chdir(t.TempDir())
	cases := map[string]objstore.Bucket{
		"mem://":            &mem.Bucket{},
		"file://" + dir:     &file.Bucket{},
		"file:relative/dir": &file.Bucket{},
		"file://" + dir + "?latency=s3-standard&latency-seed=4":                                                      &latency.Bucket{},
		"s3://name/prefix?region=eu-west-1&access-key=k&secret-key=s":                                                &s3.Bucket{},
		"s3://name?endpoint=http%3A%2F%2Flocalhost%3A1&path-style=true&access-key=k&secret-key=s&latency=s3-express": &latency.Bucket{},
	}
	for raw, kind := range cases {
		b, err := open.Bucket(t.Context(), raw)
		require.NoError(t, err, raw)
		require.IsType(t, kind, b, raw)
		require.NoError(t, b.Close())
	}
	require.DirExists(t, "relative/dir")
}

func TestBucket_Faults(t *testing.T) {
	for raw, fault := range map[string]string{
		"":                      `scheme "" is none of`,
		"/data":                 `scheme "" is none of`,
		"gs://bucket":           `scheme "gs" is none of`,
		"file://data/dir":       "file:///data/dir",
		"file://":               "no directory",
		"file:///x?sync=no":     "unknown parameters",
		"mem://x":               "neither name nor parameters",
		"mem://?latency=slow":   `no latency model is called "slow"`,
		"mem://?latency-seed=1": "no latency model",
		"mem://?latency=s3-express&latency-seed=x": "not a number",
		"s3://bucket?regoin=x":                     `unknown parameter "regoin"`,
	} {
		_, err := open.Bucket(t.Context(), raw)
		require.ErrorContains(t, err, fault, raw)
	}
}

func TestBucket_OneZoneIsAskedForByName(t *testing.T) {
	for _, name := range []string{"records--use1-az4--x-s3", "records--euw1-az1--xa-s3"} {
		raw := "s3://" + name + "/prefix?region=us-east-1&access-key=k&secret-key=s"
		for _, opts := range [][]open.Option{nil, {open.AllowOneZone(false)}} {
			_, err := open.Bucket(t.Context(), raw, opts...)
			require.ErrorIs(t, err, open.ErrOneZone)
			require.ErrorContains(t, err, "--one-zone-durability")
		}
		_, err := open.Bucket(t.Context(), raw+"&latency=s3-express")
		require.ErrorIs(t, err, open.ErrOneZone, "a model around it makes it no safer")
		b, err := open.Bucket(t.Context(), raw, open.AllowOneZone(true))
		require.NoError(t, err)
		require.NoError(t, b.Close())
	}
	for _, name := range []string{"records", "x-s3", "records--x-s3-old"} {
		b, err := open.Bucket(t.Context(), "s3://"+name+"?region=us-east-1&access-key=k&secret-key=s")
		require.NoError(t, err, name)
		require.NoError(t, b.Close())
	}
}

func TestErrorsAndRedactHideSecrets(t *testing.T) {
	for _, raw := range []string{
		"s3://bucket?access-key=k&secret-key=hush&bad=1", "s3://bucket:x?secret-key=hush", "gs://b?secret-key=hush", "s3://user:hush@bucket?bad=1",
	} {
		_, err := open.Bucket(t.Context(), raw)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hush")
		require.NotContains(t, open.Redact(raw), "hush")
	}
	require.Equal(t, "s3://bucket?region=r", open.Redact("s3://bucket?region=r"))
}

func TestAddress(t *testing.T) {
	for url, want := range map[string]string{
		"s3://bucket/p?endpoint=http%3A%2F%2F10.0.0.1%3A9000&region=x": "10.0.0.1:9000",
		"s3://bucket/p?region=eu-central-1":                            "s3.eu-central-1.amazonaws.com",
		"s3://bucket/p":                                                "s3://bucket",
		"file:///data/objects":                                         "/data/objects",
		"mem://":                                                       "",
		"%":                                                            "",
	} {
		require.Equal(t, want, open.Address(url), url)
	}
}
