package metadata

import "github.com/freshet-io/freshet/metadata/commit"

// commandKind numbers the commands in the log. A number is never given to another command.
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

// commands is the list of all commands. The rest of a command stands together in a file of its subject: its type, its fields in
// the log (appendBody, readBody), and the method of the machine that applies it.
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

// description is what is known of a kind of command.
type description struct {
	empty func() Command
	apply func(s *machine, c Command, fx *Effects) Result
}

// of describes the command that a method of the machine applies.
func of[C any, P interface {
	*C
	Command
}](apply func(s *machine, c P, fx *Effects) Result) description {
	return description{
		empty: func() Command { return P(new(C)) },
		apply: func(s *machine, c Command, fx *Effects) Result { return apply(s, c.(P), fx) },
	}
}

// failing is of for a command whose result has no value.
func failing[C any, P interface {
	*C
	Command
}](apply func(s *machine, c P, fx *Effects) error) description {
	return of(func(s *machine, c P, fx *Effects) Result { return Result{Err: apply(s, c, fx)} })
}

// settling is of for a command that settles a submission.
func settling[C any, P interface {
	*C
	Command
}](apply func(s *machine, c P, fx *Effects) (*commit.Result, error)) description {
	return of(func(s *machine, c P, fx *Effects) Result {
		r, err := apply(s, c, fx)
		if err != nil {
			return Result{Err: err} // and not a nil *commit.Result in Value
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
