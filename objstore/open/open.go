// Package open opens buckets by URL:
//
//	s3://bucket/prefix?region=…&endpoint=…&path-style=true&ca-file=…&access-key=…&secret-key=…
//	file:///absolute/directory    file:relative/directory
//	mem://                        a new, empty bucket in this process's memory
//
// Credentials for S3 come from the AWS SDK's default chain unless the URL has them. Any URL takes
// latency=s3-standard or latency=s3-express (package latency), with latency-seed=n to repeat a run.
//
// A bucket that keeps objects in one availability zone needs the option AllowOneZone.
package open

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strconv"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/file"
	"github.com/freshet-io/freshet/objstore/latency"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/s3"
)

// ErrOneZone refuses a bucket whose objects are lost with one availability zone: acknowledged records are as durable as
// the bucket (I1), so that has to be asked for by name.
var ErrOneZone = errors.New("a directory bucket (S3 Express One Zone) keeps objects in one availability zone, and acknowledged records " +
	"are lost with it: give --one-zone-durability if that is wanted")

// Option changes what Bucket opens.
type Option func(*options)

type options struct {
	oneZone bool
	log     *zap.Logger
}

// AllowOneZone opens buckets that keep objects in one availability zone too, if allowed is true.
func AllowOneZone(allowed bool) Option { return func(o *options) { o.oneZone = allowed } }

// Log has what a provider says by itself go to a logger; else it says nothing.
func Log(log *zap.Logger) Option { return func(o *options) { o.log = log } }

// Bucket opens the bucket at the URL. It makes no request to an S3 store yet. The error does not show secrets; it is
// ErrOneZone for a bucket that was not allowed.
func Bucket(ctx context.Context, rawURL string, opts ...Option) (objstore.Bucket, error) {
	var chosen options
	for _, opt := range opts {
		opt(&chosen)
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		var parse *url.Error // it repeats the URL, with its secrets
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, fmt.Errorf("bucket URL: %w", err)
	}
	slow, err := takeLatency(u)
	if err != nil {
		return nil, fmt.Errorf("bucket URL: %w", err)
	}
	b, err := provider(ctx, u, chosen)
	if err != nil {
		return nil, fmt.Errorf("bucket URL %s: %w", Redact(rawURL), err)
	}
	return slow(b), nil
}

func provider(ctx context.Context, u *url.URL, chosen options) (objstore.Bucket, error) {
	switch u.Scheme {
	case "s3":
		config, err := s3.ParseURL(u)
		if err != nil {
			return nil, err
		}
		if s3.IsDirectory(config.Bucket) && !chosen.oneZone {
			return nil, ErrOneZone
		}
		config.Log = chosen.log
		return s3.New(ctx, config)
	case "file":
		dir, err := fileDir(u)
		if err != nil {
			return nil, err
		}
		return file.Open(dir)
	case "mem":
		if u.Host != "" || u.Path != "" || u.RawQuery != "" {
			return nil, errors.New("mem:// takes neither name nor parameters")
		}
		return mem.New(), nil
	default:
		return nil, fmt.Errorf("scheme %q is none of s3, file, mem", u.Scheme)
	}
}

func fileDir(u *url.URL) (string, error) {
	dir := u.Path
	if u.Opaque != "" {
		dir = u.Opaque
	}
	switch {
	case u.Host != "":
		return "", fmt.Errorf("file URLs have three slashes (file:///%s%s) or none", u.Host, u.Path)
	case u.RawQuery != "":
		return "", fmt.Errorf("unknown parameters %q", u.RawQuery)
	case dir == "":
		return "", errors.New("no directory")
	}
	return filepath.FromSlash(dir), nil
}

// takeLatency takes the latency parameters out of the URL and gives what wraps the bucket.
func takeLatency(u *url.URL) (func(objstore.Bucket) objstore.Bucket, error) {
	query := u.Query()
	name, seedText := query.Get("latency"), query.Get("latency-seed")
	if name == "" && seedText == "" {
		return func(b objstore.Bucket) objstore.Bucket { return b }, nil
	}
	model, err := latency.Preset(name)
	if err != nil {
		return nil, err
	}
	seed := rand.Uint64()
	if seedText != "" {
		if seed, err = strconv.ParseUint(seedText, 10, 64); err != nil {
			return nil, fmt.Errorf("latency-seed: %q is not a number", seedText)
		}
	}
	query.Del("latency")
	query.Del("latency-seed")
	u.RawQuery = query.Encode()
	return func(b objstore.Bucket) objstore.Bucket { return latency.New(b, model, seed) }, nil
}

// Address returns the part of a bucket's URL that names the store, for people: host:port of an endpoint, the directory of a file: URL, or
// the region's host at AWS. If the region is not in the URL, it returns s3:// and the bucket. Other URLs have no address.
func Address(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	switch u.Scheme {
	case "file":
		if dir, err := fileDir(u); err == nil {
			return dir
		}
	case "s3":
		if endpoint, err := url.Parse(u.Query().Get("endpoint")); err == nil && endpoint.Host != "" {
			return endpoint.Host
		}
		if region := u.Query().Get("region"); region != "" {
			return "s3." + region + ".amazonaws.com"
		}
		return "s3://" + u.Host
	}
	return ""
}

// Redact gives the URL without secrets, for logs.
func Redact(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "(not a URL)"
	}
	query := u.Query()
	if query.Has("secret-key") {
		query.Set("secret-key", "redacted")
		u.RawQuery = query.Encode()
	}
	return u.Redacted()
}
