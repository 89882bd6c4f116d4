package metadata

import "github.com/freshet-io/freshet/metadata/commit"

// commandKind is the number of a command in the log. It is fixed within a generation. Append a new kind at the end: anywhere else it
// renumbers the kinds that follow, which raises generation.Number.
type commandKind uint8

const (
	kindBootstrap commandKind = iota + 1
	kindRaiseVersion
	kindTick
	kindCheckHash
	kindCreateTopic
	kindDeleteTopic
	kindUndeleteTopic
	kindPurgeTopics
	kindCreatePartitions
	kindSetReplicationFactor
	kindSetConfigs
	kindOpenSession
	kindDrainSession
	kindHideSession
	kindCloseSession
	kindRecordSweep
	kindCommitBundle
	kindAbandonSubmission
	kindTrimPartitions
	kindRetainPartitions
	kindForgetBundles
	kindAllocateProducerIDs
	kindLimitProducers
	kindInitTransaction
	kindAddPartitions
	kindAddOffsets
	kindEndTransaction
	kindWriteMarkers
	kindUpdateGroup
	kindDeleteGroup
	kindCommitOffsets
	kindDeleteOffsets
	kindStartJob
	kindCompleteJob
	kindAbortJob
	kindSetLimits // from version 2 of the state on
	kindUseBucket // from version 3 of the state on
)

// commands describes every command by its kind. To add a command:
//
//  1. Append its kind to the constants, its method to commands, and its kind method below.
//  2. Declare its type, appendBody and readBody in a *_command.go file, or in the file of the table that it changes.
//  3. Write the machine's method in the file of that table. The type's comment lists its results.
//  4. Add it to goldenCommands and to the commands of TestScripts, and run make golden.
//  5. Propose it only if State.Version has reached the version that knows it (ARCHITECTURE.md, "Versions of the state").
var commands = [...]commandSpec{
	kindBootstrap:            withError((*machine).bootstrap),
	kindRaiseVersion:         withError((*machine).raiseVersion),
	kindTick:                 withResult((*machine).tick),
	kindCheckHash:            withResult((*machine).checkHash),
	kindCreateTopic:          withError((*machine).createTopic),
	kindDeleteTopic:          withError((*machine).deleteTopic),
	kindUndeleteTopic:        withError((*machine).undeleteTopic),
	kindPurgeTopics:          withResult((*machine).purgeTopics),
	kindCreatePartitions:     withError((*machine).createPartitions),
	kindSetReplicationFactor: withError((*machine).setReplicationFactor),
	kindSetConfigs:           withError((*machine).setConfigs),
	kindOpenSession:          withResult((*machine).openSession),
	kindDrainSession:         withError((*machine).drainSession),
	kindHideSession:          withError((*machine).hideSession),
	kindCloseSession:         withError((*machine).closeSession),
	kindRecordSweep:          withResult((*machine).recordSweep),
	kindCommitBundle:         withCommit((*machine).commitBundle),
	kindAbandonSubmission:    withCommit((*machine).abandon),
	kindTrimPartitions:       withResult((*machine).trimPartitions),
	kindRetainPartitions:     withResult((*machine).retainPartitions),
	kindForgetBundles:        withResult((*machine).forgetBundles),
	kindAllocateProducerIDs:  withResult((*machine).allocateProducerIDs),
	kindLimitProducers:       withError((*machine).limitProducers),
	kindInitTransaction:      withResult((*machine).initTransaction),
	kindAddPartitions:        withResult((*machine).addPartitions),
	kindAddOffsets:           withResult((*machine).addOffsets),
	kindEndTransaction:       withResult((*machine).endTransaction),
	kindWriteMarkers:         withResult((*machine).writeMarkers),
	kindUpdateGroup:          withResult((*machine).updateGroup),
	kindDeleteGroup:          withError((*machine).deleteGroup),
	kindCommitOffsets:        withResult((*machine).commitOffsets),
	kindDeleteOffsets:        withResult((*machine).deleteOffsets),
	kindStartJob:             withResult((*machine).startJob),
	kindCompleteJob:          withResult((*machine).completeJob),
	kindAbortJob:             withError((*machine).abortJob),
	kindSetLimits:            withError((*machine).setLimits),
	kindUseBucket:            withError((*machine).useBucket),
}

// commandSpec creates and applies the commands of one kind.
type commandSpec struct {
	create func() Command
	apply  func(s *machine, c Command, fx *Effects) Result
}

// withResult describes a command whose method returns a Result.
func withResult[C any, P interface {
	*C
	Command
}](apply func(s *machine, c P, fx *Effects) Result) commandSpec {
	return commandSpec{
		create: func() Command { return P(new(C)) },
		apply:  func(s *machine, c Command, fx *Effects) Result { return apply(s, c.(P), fx) },
	}
}

// withError describes a command whose method returns only an error.
func withError[C any, P interface {
	*C
	Command
}](apply func(s *machine, c P, fx *Effects) error) commandSpec {
	return withResult(func(s *machine, c P, fx *Effects) Result { return Result{Err: apply(s, c, fx)} })
}

// withCommit describes a command that settles a submission.
func withCommit[C any, P interface {
	*C
	Command
}](apply func(s *machine, c P, fx *Effects) (*commit.Result, error)) commandSpec {
	return withResult(func(s *machine, c P, fx *Effects) Result {
		r, err := apply(s, c, fx)
		if err != nil {
			return Result{Err: err} // Value must stay nil, not hold a nil *commit.Result
		}
		return Result{Value: r}
	})
}

func (*Bootstrap) kind() commandKind            { return kindBootstrap }
func (*RaiseVersion) kind() commandKind         { return kindRaiseVersion }
func (*Tick) kind() commandKind                 { return kindTick }
func (*CheckHash) kind() commandKind            { return kindCheckHash }
func (*CreateTopic) kind() commandKind          { return kindCreateTopic }
func (*DeleteTopic) kind() commandKind          { return kindDeleteTopic }
func (*UndeleteTopic) kind() commandKind        { return kindUndeleteTopic }
func (*PurgeTopics) kind() commandKind          { return kindPurgeTopics }
func (*CreatePartitions) kind() commandKind     { return kindCreatePartitions }
func (*SetReplicationFactor) kind() commandKind { return kindSetReplicationFactor }
func (*SetConfigs) kind() commandKind           { return kindSetConfigs }
func (*OpenSession) kind() commandKind          { return kindOpenSession }
func (*DrainSession) kind() commandKind         { return kindDrainSession }
func (*HideSession) kind() commandKind          { return kindHideSession }
func (*CloseSession) kind() commandKind         { return kindCloseSession }
func (*RecordSweep) kind() commandKind          { return kindRecordSweep }
func (*CommitBundle) kind() commandKind         { return kindCommitBundle }
func (*AbandonSubmission) kind() commandKind    { return kindAbandonSubmission }
func (*TrimPartitions) kind() commandKind       { return kindTrimPartitions }
func (*RetainPartitions) kind() commandKind     { return kindRetainPartitions }
func (*ForgetBundles) kind() commandKind        { return kindForgetBundles }
func (*AllocateProducerIDs) kind() commandKind  { return kindAllocateProducerIDs }
func (*LimitProducers) kind() commandKind       { return kindLimitProducers }
func (*InitTransaction) kind() commandKind      { return kindInitTransaction }
func (*AddPartitions) kind() commandKind        { return kindAddPartitions }
func (*AddOffsets) kind() commandKind           { return kindAddOffsets }
func (*EndTransaction) kind() commandKind       { return kindEndTransaction }
func (*WriteMarkers) kind() commandKind         { return kindWriteMarkers }
func (*UpdateGroup) kind() commandKind          { return kindUpdateGroup }
func (*DeleteGroup) kind() commandKind          { return kindDeleteGroup }
func (*CommitOffsets) kind() commandKind        { return kindCommitOffsets }
func (*DeleteOffsets) kind() commandKind        { return kindDeleteOffsets }
func (*StartJob) kind() commandKind             { return kindStartJob }
func (*CompleteJob) kind() commandKind          { return kindCompleteJob }
func (*AbortJob) kind() commandKind             { return kindAbortJob }
func (*SetLimits) kind() commandKind            { return kindSetLimits }
func (*UseBucket) kind() commandKind            { return kindUseBucket }
