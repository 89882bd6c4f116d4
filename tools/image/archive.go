package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Annotations that name an image in an archive.
const (
	annotationContainerd = "io.containerd.image.name"
	annotationOCI        = "org.opencontainers.image.ref.name"
)

// writeArchive writes index as an OCI archive: a tar of an image layout. The file appears whole or not at all.
func writeArchive(output string, tag name.Tag, index v1.ImageIndex) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(output), filepath.Base(output)+".layout-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	images := filepath.Join(dir, "layout")
	l, err := layout.Write(images, empty.Index)
	if err != nil {
		return fmt.Errorf("write the image layout: %w", err)
	}
	full := fullName(tag)
	if err := l.AppendIndex(index, layout.WithAnnotations(map[string]string{annotationContainerd: full, annotationOCI: full})); err != nil {
		return fmt.Errorf("write the image layout: %w", err)
	}
	whole := filepath.Join(dir, "archive")
	if err := tarDir(whole, images); err != nil {
		return fmt.Errorf("write %s: %w", output, err)
	}
	return os.Rename(whole, output)
}

// fullName returns a tag as container runtimes write it, with Docker Hub as docker.io.
func fullName(tag name.Tag) string {
	if short, ok := strings.CutPrefix(tag.Name(), name.DefaultRegistry+"/"); ok {
		return "docker.io/" + short
	}
	return tag.Name()
}

// tarDir writes the files below dir to a tar, in the order of their names.
func tarDir(output, dir string) error {
	f, err := os.OpenFile(output, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	buffered := bufio.NewWriterSize(f, 1<<20)
	w := tar.NewWriter(buffered)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return tarFile(w, filepath.ToSlash(rel), path)
	})
	return errors.Join(err, w.Close(), buffered.Flush(), f.Close())
}

func tarFile(w *tar.Writer, name, source string) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: info.Size(), ModTime: created, Format: tar.FormatUSTAR}
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
