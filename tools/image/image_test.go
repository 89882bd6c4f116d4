package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
)

// program writes the header of a Linux program to a file and returns its path.
func program(t *testing.T, name string, machine elf.Machine, segments ...elf.ProgType) string {
	t.Helper()
	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	if len(segments) > 0 {
		h.Phoff, h.Phentsize, h.Phnum = 64, 56, uint16(len(segments))
	}
	require.NoError(t, binary.Write(&b, binary.LittleEndian, h))
	for _, s := range segments {
		require.NoError(t, binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(s)}))
	}
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

// archived runs the command for both architectures and returns the archive and what was printed.
func archived(t *testing.T, amd64, arm64 string) (archive []byte, printed string) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "image.tar")
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{
		"--name", "freshet:v1", "--platform", "arm64=" + arm64, "--platform", "amd64=" + amd64, "--output", output,
	}, &out, t.Output()))
	archive, err := os.ReadFile(output)
	require.NoError(t, err)
	left, err := os.ReadDir(filepath.Dir(output))
	require.NoError(t, err)
	require.Len(t, left, 1, "only the archive is left")
	return archive, strings.TrimPrefix(out.String(), output+" ")
}

// files returns the headers and contents of a tar by name.
func files(t *testing.T, r io.Reader) (map[string]*tar.Header, map[string][]byte) {
	t.Helper()
	headers, contents := map[string]*tar.Header{}, map[string][]byte{}
	for r := tar.NewReader(r); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		headers[h.Name], contents[h.Name] = h, content
	}
}

func TestRun_SameInputSameArchive(t *testing.T) {
	first, printed := archived(t, program(t, "freshet", elf.EM_X86_64), program(t, "freshet", elf.EM_AARCH64))
	second, again := archived(t, program(t, "freshet", elf.EM_X86_64), program(t, "freshet", elf.EM_AARCH64))
	require.True(t, bytes.Equal(first, second))
	require.Equal(t, printed, again)
	require.Regexp(t, `^freshet:v1 sha256:[0-9a-f]{64}\n$`, printed)

	other, differs := archived(t, program(t, "freshet", elf.EM_X86_64, elf.PT_LOAD), program(t, "freshet", elf.EM_AARCH64))
	require.False(t, bytes.Equal(first, other))
	require.NotEqual(t, printed, differs)
}

// The checksum is of the bytes that this version writes: they depend on neither clock, user nor umask.
func TestLayerTar_IsReproducible(t *testing.T) {
	content, err := layerTar([]file{{path: "/freshet", mode: 0o755, data: []byte("program")}, {path: rootsPath, mode: 0o644, data: []byte("roots")}})
	require.NoError(t, err)
	require.Equal(t, "7cddbdf010891a6daaa69f6d797172a328a2bb3829cdcff9af070cc21f5b45b4", fmt.Sprintf("%x", sha256.Sum256(content)))
}

func TestRun_ArchiveIsALayoutWithBothPlatforms(t *testing.T) {
	archive, printed := archived(t, program(t, "freshet", elf.EM_X86_64), program(t, "freshet", elf.EM_AARCH64))
	_, contents := files(t, bytes.NewReader(archive))
	require.JSONEq(t, `{"imageLayoutVersion": "1.0.0"}`, string(contents["oci-layout"]))
	var top, both v1.IndexManifest
	require.NoError(t, json.Unmarshal(contents["index.json"], &top))
	require.Len(t, top.Manifests, 1)
	require.Equal(t, "freshet:v1 "+top.Manifests[0].Digest.String()+"\n", printed)
	require.Equal(t, map[string]string{annotationContainerd: "docker.io/library/freshet:v1", annotationOCI: "docker.io/library/freshet:v1"},
		top.Manifests[0].Annotations)
	require.NoError(t, json.Unmarshal(contents["blobs/sha256/"+top.Manifests[0].Digest.Hex], &both))
	require.Len(t, both.Manifests, 2)
	require.Equal(t, "linux/amd64", both.Manifests[0].Platform.String())
	require.Equal(t, "linux/arm64", both.Manifests[1].Platform.String())
}

func TestBuild_FitsRestrictedContainers(t *testing.T) {
	source := program(t, "etcd", elf.EM_X86_64)
	index, err := build(map[string][]file{"amd64": {
		{source: source, path: "/usr/local/bin/etcd", mode: 0o755}, {source: source, path: "/usr/local/bin/etcdctl", mode: 0o755},
	}}, "", "/var/data")
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	image, err := index.Image(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	config, err := image.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, "65532:65532", config.Config.User)
	require.Equal(t, []string{"/usr/local/bin/etcd"}, config.Config.Entrypoint)
	require.Equal(t, []string{"PATH=/usr/local/bin"}, config.Config.Env)
	require.Equal(t, int64(0), config.Created.Unix())

	layers, err := image.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	content, err := layers[0].Uncompressed()
	require.NoError(t, err)
	defer content.Close()
	headers, contents := files(t, content)
	modes := map[string]int64{}
	for name, h := range headers {
		modes[name] = h.Mode
		owner := 0
		if name == "var/data/" {
			owner = 65532
		}
		require.Equal(t, []int{owner, owner}, []int{h.Uid, h.Gid}, name)
		require.Equal(t, int64(0), h.ModTime.Unix(), name)
	}
	require.Equal(t, map[string]int64{
		"etc/": 0o755, "etc/ssl/": 0o755, "etc/ssl/certs/": 0o755, "etc/ssl/certs/ca-certificates.crt": 0o644,
		"usr/": 0o755, "usr/local/": 0o755, "usr/local/bin/": 0o755, "usr/local/bin/etcd": 0o755, "usr/local/bin/etcdctl": 0o755,
		"var/": 0o755, "var/data/": 0o755,
	}, modes)
	require.True(t, x509.NewCertPool().AppendCertsFromPEM(contents["etc/ssl/certs/ca-certificates.crt"]))
	require.Greater(t, bytes.Count(contents["etc/ssl/certs/ca-certificates.crt"], []byte("BEGIN CERTIFICATE")), 100)
}

func TestRun_Pushes(t *testing.T) {
	s := httptest.NewServer(registry.New())
	defer s.Close()
	target := strings.TrimPrefix(s.URL, "http://") + "/freshet:v1"
	var out strings.Builder
	args := []string{"--name", "freshet:v1", "--platform", "amd64=" + program(t, "freshet", elf.EM_X86_64), "--push"}
	require.NoError(t, run(t.Context(), append(args, target), &out, t.Output()))
	tag, err := name.NewTag(target)
	require.NoError(t, err)
	pushed, err := remote.Index(tag)
	require.NoError(t, err)
	digest, err := pushed.Digest()
	require.NoError(t, err)
	require.Equal(t, "pushed "+target+"@"+digest.String()+"\n", out.String())
	require.NoError(t, validate.Index(pushed))

	for _, target := range []string{"freshet:v1", strings.TrimSuffix(target, ":v1")} {
		require.ErrorContains(t, run(t.Context(), append(args, target), &out, t.Output()), "--push "+target+": write it as REGISTRY/NAME:TAG")
	}
	s.Close()
	require.ErrorContains(t, run(t.Context(), append(args, target), &out, t.Output()), "push "+target)
}

func TestRun_SaysWhatIsWrong(t *testing.T) {
	static, text := program(t, "static", elf.EM_X86_64), filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(text, []byte("#!/bin/sh"), 0o600))
	output := filepath.Join(t.TempDir(), "image.tar")
	for says, args := range map[string][]string{
		"linked dynamically: build it with CGO_ENABLED=0":       {"--platform", "amd64=" + program(t, "dynamic", elf.EM_X86_64, elf.PT_INTERP)},
		"built for EM_AARCH64, not EM_X86_64":                   {"--platform", "amd64=" + program(t, "other", elf.EM_AARCH64)},
		"script: no Linux program":                              {"--platform", "amd64=" + text},
		"absent: no such file":                                  {"--platform", "amd64=/absent"},
		"--entrypoint /other is not among the image's programs": {"--platform", "amd64=" + static, "--entrypoint", "/other"},
		"two files for /static":                                 {"--platform", "amd64=" + static, "--platform", "amd64=" + static},
		"/a is a file and a directory":                          {"--platform", "amd64=" + static + ":/a", "--platform", "amd64=" + static + ":/a/b"},
		"architecture of amd64, arm64":                          {"--platform", "mips=" + static},
		"is not an absolute file path":                          {"--platform", "amd64=" + static + ":bin/x"},
		`--directory: "data" is not an absolute path`:           {"--platform", "amd64=" + static, "--directory", "data"},
		"/static is a file and a directory":                     {"--platform", "amd64=" + static, "--directory", "/static"},
		"--platform is needed":                                  {},
		"unknown argument":                                      {"freshet"},
		"--name: tag can only contain":                          {"--platform", "amd64=" + static, "--name", "Freshet:a+b"},
	} {
		err := run(t.Context(), append([]string{"--name", "freshet:v1", "--output", output}, args...), io.Discard, io.Discard)
		require.ErrorContains(t, err, says)
		require.NoFileExists(t, output)
	}
	require.ErrorContains(t, run(t.Context(), []string{"--name", "a", "--platform", "amd64=" + static}, io.Discard, io.Discard), "--output or --push")
	require.ErrorContains(t, run(t.Context(), []string{"--platform", "amd64=" + static}, io.Discard, io.Discard), "--name is needed")
}

// TestDockerfile_MakesTheSameImage compares the Dockerfile with the constants of this program and with make image.
func TestDockerfile_MakesTheSameImage(t *testing.T) {
	text, err := os.ReadFile("../../deploy/image/Dockerfile")
	require.NoError(t, err)
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	require.True(t, bytes.Contains(makefile, []byte(" --directory /data ")), "make image has the directory of the Dockerfile")
	for _, line := range []string{"FROM scratch", fmt.Sprintf("COPY --from=build --chown=%s /data /data", user), "USER " + user, "ENV PATH=/", "WORKDIR /", `ENTRYPOINT ["/freshet"]`} {
		require.Contains(t, string(text), "\n"+line+"\n")
	}
	require.Contains(t, string(text), " "+rootsPath+"\n")
}
