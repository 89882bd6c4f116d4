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
)

// commands describes every command by its kind. To add a command:
//
//  1. Append its kind to the constants, its method to commands, and its kind method below.
//  2. Declare its type, appendBody and readBody in a *_command.go file, or in the file of the table that it changes.
//  3. Write the machine's method in the file of that table. The type's comment lists its results.
//  4. Add it to goldenCommands and to the commands of TestScripts, and run make golden.
//  5. Propose it only if State.Version has reached the version that knows it (ARCHITECTURE.md, "Versions of the state").
var commands = [...]description{
	kindBootstrap:           failing((*machine).bootstrap),
	kindRaiseVersion:        failing((*machine).raiseVersion),
	kindTick:                of((*machine).tick),
	kindCheckHash:           of((*machine).checkHash),
	kindCreateTopic:         failing((*machine).createTopic),
	kindDeleteTopic:         failing((*machine).deleteTopic),
	kindUndeleteTopic:       failing((*machine).undeleteTopic),
	kindPurgeTopics:         of((*machine).purgeTopics),
	kindCreatePartitions:    failing((*machine).createPartitions),
	kindSetConfigs:          failing((*machine).setConfigs),
	kindOpenSession:         of((*machine).openSession),
	kindDrainSession:        failing((*machine).drainSession),
	kindHideSession:         failing((*machine).hideSession),
	kindCloseSession:        failing((*machine).closeSession),
	kindRecordSweep:         of((*machine).recordSweep),
	kindCommitBundle:        settling((*machine).commitBundle),
	kindAbandonSubmission:   settling((*machine).abandon),
	kindTrimPartitions:      of((*machine).trimPartitions),
	kindRetainPartitions:    of((*machine).retainPartitions),
	kindForgetBundles:       of((*machine).forgetBundles),
	kindAllocateProducerIDs: of((*machine).allocateProducerIDs),
	kindLimitProducers:      failing((*machine).limitProducers),
	kindInitTransaction:     of((*machine).initTransaction),
	kindAddPartitions:       of((*machine).addPartitions),
	kindAddOffsets:          of((*machine).addOffsets),
	kindEndTransaction:      of((*machine).endTransaction),
	kindWriteMarkers:        of((*machine).writeMarkers),
	kindUpdateGroup:         of((*machine).updateGroup),
	kindDeleteGroup:         failing((*machine).deleteGroup),
	kindCommitOffsets:       of((*machine).commitOffsets),
	kindDeleteOffsets:       of((*machine).deleteOffsets),
	kindStartJob:            of((*machine).startJob),
	kindCompleteJob:         of((*machine).completeJob),
	kindAbortJob:            failing((*machine).abortJob),
}

// description creates and applies the commands of one kind.
type description struct {
	empty func() Command
	apply func(s *machine, c Command, fx *Effects) Result
}

// of describes a command whose method returns a Result.
func of[C any, P interface {
	*C
	Command
}](apply func(s *machine, c P, fx *Effects) Result) description {
	return description{
		empty: func() Command { return P(new(C)) },
		apply: func(s *machine, c Command, fx *Effects) Result { return apply(s, c.(P), fx) },
	}
}

// failing describes a command whose method returns only an error.
func failing[C any, P interface {
	*C
	Command
}](apply func(s *machine, c P, fx *Effects) error) description {
	return of(func(s *machine, c P, fx *Effects) Result { return Result{Err: apply(s, c, fx)} })
}

// settling describes a command that settles a submission.
func settling[C any, P interface {
	*C
	Command
}](apply func(s *machine, c P, fx *Effects) (*commit.Result, error)) description {
	return of(func(s *machine, c P, fx *Effects) Result {
		r, err := apply(s, c, fx)
		if err != nil {
			return Result{Err: err} // Value must stay nil, not hold a nil *commit.Result
		}
		return Result{Value: r}
	})
}

func (*Bootstrap) kind() commandKind           { return kindBootstrap }
func (*RaiseVersion) kind() commandKind        { return kindRaiseVersion }
func (*Tick) kind() commandKind                { return kindTick }
func (*CheckHash) kind() commandKind           { return kindCheckHash }
func (*CreateTopic) kind() commandKind         { return kindCreateTopic }
func (*DeleteTopic) kind() commandKind         { return kindDeleteTopic }
func (*UndeleteTopic) kind() commandKind       { return kindUndeleteTopic }
func (*PurgeTopics) kind() commandKind         { return kindPurgeTopics }
func (*CreatePartitions) kind() commandKind    { return kindCreatePartitions }
func (*SetConfigs) kind() commandKind          { return kindSetConfigs }
func (*OpenSession) kind() commandKind         { return kindOpenSession }
func (*DrainSession) kind() commandKind        { return kindDrainSession }
func (*HideSession) kind() commandKind         { return kindHideSession }
func (*CloseSession) kind() commandKind        { return kindCloseSession }
func (*RecordSweep) kind() commandKind         { return kindRecordSweep }
func (*CommitBundle) kind() commandKind        { return kindCommitBundle }
func (*AbandonSubmission) kind() commandKind   { return kindAbandonSubmission }
func (*TrimPartitions) kind() commandKind      { return kindTrimPartitions }
func (*RetainPartitions) kind() commandKind    { return kindRetainPartitions }
func (*ForgetBundles) kind() commandKind       { return kindForgetBundles }
func (*AllocateProducerIDs) kind() commandKind { return kindAllocateProducerIDs }
func (*LimitProducers) kind() commandKind      { return kindLimitProducers }
func (*InitTransaction) kind() commandKind     { return kindInitTransaction }
func (*AddPartitions) kind() commandKind       { return kindAddPartitions }
func (*AddOffsets) kind() commandKind          { return kindAddOffsets }
func (*EndTransaction) kind() commandKind      { return kindEndTransaction }
func (*WriteMarkers) kind() commandKind        { return kindWriteMarkers }
func (*UpdateGroup) kind() commandKind         { return kindUpdateGroup }
func (*DeleteGroup) kind() commandKind         { return kindDeleteGroup }
func (*CommitOffsets) kind() commandKind       { return kindCommitOffsets }
func (*DeleteOffsets) kind() commandKind       { return kindDeleteOffsets }
func (*StartJob) kind() commandKind            { return kindStartJob }
func (*CompleteJob) kind() commandKind         { return kindCompleteJob }
func (*AbortJob) kind() commandKind            { return kindAbortJob }
