package metadata

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// goldenCommands are commands of all kinds, with every field set in one of them.
func goldenCommands() []Command {
	one := id.TopicPartition{Topic: id.Topic{1}, Partition: 2}
	other := id.TopicPartition{Topic: id.Topic{1}, Partition: 3}
	bundle := func(session id.Session, n uint32) id.Bundle { return id.Submission{Session: session, N: n}.Bundle() }
	all := append(everyCommand().Commands, everyTransactionCommand().Commands...)
	return append(append(all, everyLifecycleCommand()...),
		&OpenSession{Instance: "i", Peer: "h:1", Roles: RoleJobs},
		&HideSession{Session: 300, Hidden: true},
		&HideSession{Session: 1},
		&RetainPartitions{Trims: []RetentionTrim{{Trim{Partition: one, Offset: 10}, 0x0102030405060708}}},
		&ForgetBundles{},
		&ForgetBundles{Bundles: []id.Bundle{bundle(1, 5), bundle(1, 6), bundle(2, 11)}},
		&ForgetBundles{Bundles: []id.Bundle{bundle(1, 5), bundle(1, 1)}}, // not in order: only longer
		&LimitProducers{Active: 300},
		&UpdateGroup{Group: "g", Kind: GroupClassic, Head: []byte("h")},
		&UpdateGroup{Group: "g", Kind: GroupConsumer, Reset: true, Members: []GroupMember{{ID: "a", Value: []byte("v")}, {ID: "b"}}},
		&DeleteGroup{Group: "g"},
		&CommitOffsets{Group: "g", Offsets: []OffsetCommit{
			{Partition: one, Offset: 9, LeaderEpoch: -1, ExpiresMs: -1},
			{Partition: other, Offset: -1, LeaderEpoch: 4, Metadata: "m", ExpiresMs: 5},
		}},
		&CommitOffsets{Group: "g", Transaction: &TransactionRef{TransactionalID: "x", ProducerID: 5, Epoch: 2, Version: ProtocolTwo, AsOf: 300}},
		&DeleteOffsets{Group: "g", Partitions: []id.TopicPartition{one}},
		&DeleteOffsets{Group: "g", Partitions: []id.TopicPartition{one}, CommittedBefore: []int64{3}},
		&StartJob{Kind: job.Compact, Level: 2, Runner: 300, First: one, Last: other, Inputs: []id.Bundle{bundle(1, 5)}},
		&StartJob{
			Kind: job.Clean, Level: 1, Runner: 1, First: one, Last: one,
			Clean: &Cleaning{Bounds: job.Bounds{From: 1, FirstDirty: 3, To: 300}, Configs: 0x0102030405060708},
		},
		&CompleteJob{Job: 300, Last: true, Outcome: []byte("outcome")},
		&AbortJob{Job: 300},
		&SetLimits{Limits{1, 300, 3, 4, 5, 6, 1 << 40}},
		&UseBucket{"id"},
	)
}

// goldenFiles returns the golden files of commands or records by the version of the state that has them. A new version gets a file of its
// own, since files stay the same within a generation.
func goldenFiles(name string) []string {
	return []string{1: filepath.Join("testdata", name), 2: filepath.Join("testdata", name+"-2"), 3: filepath.Join("testdata", name+"-3")}
}

// checkGolden compares the lines of commands or records with the golden files of their versions.
func checkGolden(t *testing.T, name string, lines map[int]string) {
	t.Helper()
	for version, path := range goldenFiles(name)[1:] {
		now := lines[version+1]
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(now), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), now)
	}
}

// Every command is in the log as testdata/commands says: its kind, the length of the rest, and its fields.
func TestCommands_Golden(t *testing.T) {
	seen := map[commandKind]bool{}
	now := map[int]string{}
	for _, c := range goldenCommands() {
		version := 1
		switch {
		case c.kind() >= kindUseBucket:
			version = 3
		case c.kind() >= kindSetLimits:
			version = 2
		}
		seen[c.kind()] = true
		p := AppendBatch(nil, &Batch{Commands: []Command{c}})
		now[version] += fmt.Sprintf("%-21s%02x %x %x\n", strings.TrimPrefix(fmt.Sprintf("%T", c), "*metadata."), p[3], p[4:len(p)-len(c.appendBody(nil))], c.appendBody(nil))
		parsed, err := ParseBatch(p)
		require.NoError(t, err)
		require.Equal(t, []Command{c}, parsed.Commands)
		for i := range p {
			_, err := ParseBatch(p[:i])
			require.ErrorIs(t, err, ErrMalformedCommand, "%T cut at %d", c, i)
		}
	}
	for kind := kindBootstrap; int(kind) < len(commands); kind++ {
		require.True(t, seen[kind], "%T", commands[kind].create())
	}
	checkGolden(t, "commands", now)
}

// Every line of testdata/commands is a command that this program reads.
func TestCommands_GoldenAreRead(t *testing.T) {
	var all []byte
	for _, path := range goldenFiles("commands")[1:] {
		file, err := os.ReadFile(path)
		require.NoError(t, err)
		all = append(all, file...)
	}
	for line := range bytes.Lines(all) {
		name, digits, _ := strings.Cut(string(line), " ")
		p, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		require.NoError(t, err, string(line))
		empty := AppendBatch(nil, &Batch{})
		b, err := ParseBatch(append(append(empty[:2:2], 1), p...))
		require.NoError(t, err, string(line))
		require.Equal(t, "*metadata."+name, fmt.Sprintf("%T", b.Commands[0]))
	}
}
