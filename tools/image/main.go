// Command image writes container images of static programs without a container engine: one layer from scratch with the
// programs and the certificate authorities to trust. The same input and the same version of Go give the same digest.
//
//	image --name freshet:v1 --platform amd64=FILE --platform arm64=FILE --directory /data --output freshet.tar
//	image --name etcd:v3 --platform amd64=etcd:/usr/local/bin/etcd --platform amd64=etcdctl:/usr/local/bin/etcdctl --output etcd.tar
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// settings are the arguments of the command line.
type settings struct {
	name       string
	platforms  map[string][]file // by architecture
	entrypoint string
	directory  string // "" for none
	output     string
	push       string
}

func parse(args []string, usage io.Writer) (settings, error) {
	s := settings{platforms: map[string][]file{}}
	f := flag.NewFlagSet("image", flag.ContinueOnError)
	f.SetOutput(usage)
	f.StringVar(&s.name, "name", "", "`NAME:TAG` of the image in the archive")
	f.Func("platform", "`ARCH=FILE[:PATH]`: a static Linux program and its path in the image, by default /<file name>; "+
		"repeat it for more architectures and programs", s.addFile)
	f.StringVar(&s.entrypoint, "entrypoint", "", "`path` of the entry point; by default the first program")
	f.StringVar(&s.directory, "directory", "", "`path` of an empty directory that the image's user may write to")
	f.StringVar(&s.output, "output", "", "`file` to write the OCI archive to")
	f.StringVar(&s.push, "push", "", "`REGISTRY/NAME:TAG` to push the image to, with the credentials of docker login")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	switch {
	case f.NArg() > 0:
		return s, fmt.Errorf("unknown argument %q: give files by --platform", f.Arg(0))
	case s.name == "":
		return s, errors.New("--name is needed, such as freshet:v1")
	case len(s.platforms) == 0:
		return s, errors.New("--platform is needed, such as amd64=bin/freshet")
	case s.output == "" && s.push == "":
		return s, errors.New("--output or --push is needed")
	case s.directory != "" && !absolute(s.directory):
		return s, fmt.Errorf("--directory: %q is not an absolute path", s.directory)
	}
	return s, nil
}

func (s *settings) addFile(value string) error {
	arch, source, ok := strings.Cut(value, "=")
	if _, known := machines[arch]; !ok || !known {
		return fmt.Errorf("want ARCH=FILE[:PATH] with an architecture of %s", strings.Join(slices.Sorted(maps.Keys(machines)), ", "))
	}
	source, dest, _ := strings.Cut(source, ":")
	if dest == "" {
		dest = "/" + filepath.Base(source)
	}
	if !absolute(dest) {
		return fmt.Errorf("%q is not an absolute file path", dest)
	}
	s.platforms[arch] = append(s.platforms[arch], file{source: source, path: dest, mode: 0o755})
	return nil
}

// absolute reports whether name is a clean absolute path below the root.
func absolute(name string) bool { return name != "/" && path.Clean(name) == name && path.IsAbs(name) }

// run builds the image, writes and pushes it, and prints its digest.
func run(ctx context.Context, args []string, out, usage io.Writer) error {
	s, err := parse(args, usage)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(s.name)
	if err != nil {
		return fmt.Errorf("--name: %w", err)
	}
	var target name.Tag
	if s.push != "" {
		// Strict: a reference without a registry would go to Docker Hub.
		if target, err = name.NewTag(s.push, name.StrictValidation); err != nil {
			return fmt.Errorf("--push %s: write it as REGISTRY/NAME:TAG: %w", s.push, err)
		}
	}
	index, err := build(s.platforms, s.entrypoint, s.directory)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if s.output != "" {
		if err := writeArchive(s.output, tag, index); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %s %s\n", s.output, s.name, digest)
	}
	if s.push != "" {
		if err := push(ctx, target, index); err != nil {
			return err
		}
		fmt.Fprintf(out, "pushed %s@%s\n", s.push, digest)
	}
	return nil
}

func push(ctx context.Context, target name.Tag, index v1.ImageIndex) error {
	err := remote.WriteIndex(target, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return fmt.Errorf("push %s: %w", target, err)
	}
	return nil
}
