package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// user is numeric, so that Kubernetes can prove runAsNonRoot. There is no /etc/passwd.
	user = "65532:65532"
	// rootsPath is where Go programs look first.
	rootsPath = "/etc/ssl/certs/ca-certificates.crt"
	// gzipLevel is the usual one. The library's default is the fastest and largest.
	gzipLevel = 6
)

// created is the time of the image and of its files. A real time would give each build its own digest.
var created = time.Unix(0, 0).UTC()

// machines are the supported architectures.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// file is a file of the image. Its content is data, or else that of the file source.
type file struct {
	path   string
	mode   int64
	source string
	data   []byte
}

// build returns an index with one image for each architecture.
func build(platforms map[string][]file, entrypoint string) (v1.ImageIndex, error) {
	index := v1.ImageIndex(empty.Index)
	for _, arch := range slices.Sorted(maps.Keys(platforms)) {
		image, err := buildImage(arch, platforms[arch], entrypoint)
		if err != nil {
			return nil, fmt.Errorf("image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index, nil
}

func buildImage(arch string, programs []file, entrypoint string) (v1.Image, error) {
	files := []file{{path: rootsPath, mode: 0o644, data: roots()}}
	for _, f := range programs {
		var err error
		if f.data, err = os.ReadFile(f.source); err != nil {
			return nil, err
		}
		if err := checkStatic(f.data, machines[arch]); err != nil {
			return nil, fmt.Errorf("%s: %w", f.source, err)
		}
		files = append(files, f)
	}
	if entrypoint == "" {
		entrypoint = programs[0].path
	}
	if !slices.ContainsFunc(programs, func(f file) bool { return f.path == entrypoint }) {
		return nil, fmt.Errorf("--entrypoint %s is not among the image's programs", entrypoint)
	}
	content, err := layerTar(files)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzipLevel), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: v1.Time{Time: created}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{User: user, Entrypoint: []string{entrypoint}, Env: []string{"PATH=" + path.Dir(entrypoint)}, WorkingDir: "/"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: created}}})
}

// checkStatic returns an error if program does not run on machine by itself. In an image from scratch it would fail with
// "no such file or directory".
func checkStatic(program []byte, machine elf.Machine) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("no Linux program: %w", err)
	}
	if f.Machine != machine {
		return fmt.Errorf("built for %s, not %s", f.Machine, machine)
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return errors.New("linked dynamically: build it with CGO_ENABLED=0")
	}
	return nil
}

// layerTar returns a tar with the files, sorted by path, and their directories. All belong to root and cannot be
// written by others.
func layerTar(files []file) ([]byte, error) {
	entries := map[string]file{}
	for _, f := range files {
		if _, twice := entries[f.path]; twice {
			return nil, fmt.Errorf("two files for %s", f.path)
		}
		entries[f.path] = f
	}
	dirs := map[string]bool{}
	for _, f := range files {
		for dir := path.Dir(f.path); dir != "/"; dir = path.Dir(dir) {
			if _, taken := entries[dir]; taken {
				return nil, fmt.Errorf("%s is a file and a directory", dir)
			}
			dirs[dir] = true
		}
	}
	for dir := range dirs {
		entries[dir+"/"] = file{path: dir + "/", mode: 0o755}
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if err := writeEntry(w, strings.TrimPrefix(name, "/"), entries[name].mode, entries[name].data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// writeEntry writes a file, or a directory if name ends in a slash.
func writeEntry(w *tar.Writer, name string, mode int64, data []byte) error {
	h := tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(data)), ModTime: created, Format: tar.FormatUSTAR}
	if strings.HasSuffix(name, "/") {
		h.Typeflag = tar.TypeDir
	}
	if err := w.WriteHeader(&h); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err := w.Write(data)
	return err
}
