package metadata

// commandKind numbers commands in the log. Numbers are never reused.
type commandKind uint8

const (
	kindBootstrap commandKind = iota + 1
	kindRaiseVersion
	kindCreateTopic
	kindDeleteTopic
	kindCreatePartitions
	kindSetConfigs
	kindOpenSession
	kindDrainSession
	kindCloseSession
	kindCommitBundle
	kindAbandonSubmission
	kindAllocateProducerIDs
	kindTrimPartitions
	kindTick
	kindCheckHash
)

func (*Bootstrap) kind() commandKind           { return kindBootstrap }
func (*RaiseVersion) kind() commandKind        { return kindRaiseVersion }
func (*CreateTopic) kind() commandKind         { return kindCreateTopic }
func (*CreatePartitions) kind() commandKind    { return kindCreatePartitions }
func (*SetConfigs) kind() commandKind          { return kindSetConfigs }
func (*DrainSession) kind() commandKind        { return kindDrainSession }
func (*CloseSession) kind() commandKind        { return kindCloseSession }
func (*CommitBundle) kind() commandKind        { return kindCommitBundle }
func (*AbandonSubmission) kind() commandKind   { return kindAbandonSubmission }
func (*AllocateProducerIDs) kind() commandKind { return kindAllocateProducerIDs }
func (*TrimPartitions) kind() commandKind      { return kindTrimPartitions }
func (*Tick) kind() commandKind                { return kindTick }
func (*CheckHash) kind() commandKind           { return kindCheckHash }

// kindOpenSessionOfRoles is an OpenSession with roles or a peer address.
const kindOpenSessionOfRoles commandKind = 41

func (c *OpenSession) kind() commandKind {
	if c.Roles != 0 || c.Peer != "" {
		return kindOpenSessionOfRoles
	}
	return kindOpenSession
}
