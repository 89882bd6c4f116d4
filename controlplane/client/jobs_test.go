package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

func part(n id.Session, partition int32, last bool) *api.Job {
	p := job.Plan{ID: n, Kind: job.Compact, Level: 1, Partitions: []job.Partition{{
		ID: id.TopicPartition{Partition: partition}, Extents: []extent.Extent{{Last: 1, Length: 9, Batches: 1, Bundle: 5}},
	}}}
	return &api.Job{Job: uint32(n), Plan: job.AppendPlan(nil, &p), Last: last}
}

func TestPlans_PutsPartsTogether(t *testing.T) {
	var p plans
	add := func(m *api.Job) *job.Plan {
		t.Helper()
		whole, err := p.add(m)
		require.NoError(t, err)
		return whole
	}
	require.Nil(t, add(part(7, 0, false)))
	require.Nil(t, add(part(7, 1, false)))
	whole := add(part(7, 2, true))
	require.Equal(t, id.Session(7), whole.ID)
	require.Len(t, whole.Partitions, 3)

	require.Nil(t, add(part(8, 0, false)), "its other parts never come")
	require.Len(t, add(part(9, 0, true)).Partitions, 1, "and are not of the next job")

	wrong := part(7, 0, true)
	wrong.Job = 8
	_, err := p.add(wrong)
	require.ErrorIs(t, err, errTornPlan)
	_, err = p.add(&api.Job{Job: 7, Plan: []byte{1, 2}, Last: true})
	require.ErrorIs(t, err, job.ErrMalformed)
}

func TestCompleteJob_RefusesWhatIsTooLarge(t *testing.T) {
	s := notRun(t, 0)
	require.ErrorIs(t, s.CompleteJob(t.Context(), 1, make([]byte, MaxOutcomeBytes+1), true), ErrInvalid)
	s.JobProgress(1, 10) // goes nowhere without a stream
}
