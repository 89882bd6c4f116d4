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
	// uid is the user and the group of the image. They are numbers, so that Kubernetes can prove runAsNonRoot. The image has no /etc/passwd.
	uid = 65532
	// rootsPath is where Go programs look first.
	rootsPath = "/etc/ssl/certs/ca-certificates.crt"
	// gzipLevel is the usual one. The library's default is the fastest and largest.
	gzipLevel = 6
)

// user is uid as images name it.
var user = fmt.Sprintf("%d:%d", uid, uid)

// created is the time of the image and of its files. A real time would give each build its own digest.
var created = time.Unix(0, 0).UTC()

// machines are the supported architectures.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// file is a file of the image, or a directory if its path ends in a slash. Its content is data, or else that of the file source.
type file struct {
	path   string
	mode   int64
	source string
	data   []byte
	owner  int // user and group
}

// build returns an index with one image for each architecture. Its user owns directory, unless that is "".
func build(platforms map[string][]file, entrypoint, directory string) (v1.ImageIndex, error) {
	index := v1.ImageIndex(empty.Index)
	for _, arch := range slices.Sorted(maps.Keys(platforms)) {
		image, err := buildImage(arch, platforms[arch], entrypoint, directory)
		if err != nil {
			return nil, fmt.Errorf("image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index, nil
}

func buildImage(arch string, programs []file, entrypoint, directory string) (v1.Image, error) {
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
	if directory != "" {
		files = append(files, file{path: directory + "/", mode: 0o755, owner: uid})
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

// layerTar returns a tar with the files, sorted by path, and their directories. Everything belongs to root, except files with
// another owner, and has no other writer than its owner.
func layerTar(files []file) ([]byte, error) {
	entries := map[string]file{}
	for _, f := range files {
		if _, twice := entries[f.path]; twice {
			return nil, fmt.Errorf("two files for %s", f.path)
		}
		entries[f.path] = f
	}
	for _, f := range files {
		for dir := path.Dir(strings.TrimSuffix(f.path, "/")); dir != "/"; dir = path.Dir(dir) {
			if _, made := entries[dir+"/"]; !made {
				entries[dir+"/"] = file{path: dir + "/", mode: 0o755}
			}
		}
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if _, taken := entries[strings.TrimSuffix(name, "/")]; taken && strings.HasSuffix(name, "/") {
			return nil, fmt.Errorf("%s is a file and a directory", strings.TrimSuffix(name, "/"))
		}
		if err := writeEntry(w, entries[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// writeEntry writes a file or a directory.
func writeEntry(w *tar.Writer, f file) error {
	h := tar.Header{
		Name: strings.TrimPrefix(f.path, "/"), Typeflag: tar.TypeReg, Mode: f.mode, Size: int64(len(f.data)), Uid: f.owner, Gid: f.owner,
		ModTime: created, Format: tar.FormatUSTAR,
	}
	if strings.HasSuffix(f.path, "/") {
		h.Typeflag = tar.TypeDir
	}
	if err := w.WriteHeader(&h); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	_, err := w.Write(f.data)
	return err
}
