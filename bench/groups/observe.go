package groups

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/freshet-io/freshet/bench/cost"
	"github.com/freshet-io/freshet/bench/process"
	"github.com/freshet-io/freshet/internal/wait"
)

// observation is what the processes of a cluster used over a while.
type observation struct {
	agent, control        float64 // share of a core
	memory, controlMemory int64   // resident bytes at the end
	heap                  int64   // bytes in use of the agent's heap and stacks at the end
}

func (o observation) String() string {
	return fmt.Sprintf("%.2f %% of a core, %.1f MiB resident, %.1f MiB heap and stacks", o.agent*100, mib(o.memory), mib(o.heap))
}

// observe lets the cluster settle, and measures it.
func observe(ctx context.Context, cfg Config, cluster *cost.Cluster) (o observation, err error) {
	if err := wait.For(ctx, cfg.Settle); err != nil {
		return o, err
	}
	began := time.Now()
	agent, err1 := cluster.Agent().CPU()
	control, err2 := cluster.Control().CPU()
	if err := errors.Join(err1, err2, wait.For(ctx, cfg.Duration)); err != nil {
		return o, err
	}
	agentAfter, err1 := cluster.Agent().CPU()
	controlAfter, err2 := cluster.Control().CPU()
	took := time.Since(began).Seconds()
	o.agent, o.control = (agentAfter-agent)/took, (controlAfter-control)/took
	var err3, err4, err5 error
	o.memory, err3 = cluster.Agent().Memory()
	o.controlMemory, err4 = cluster.Control().Memory()
	o.heap, err5 = heap(ctx, cluster.HTTPAddress())
	return o, errors.Join(err1, err2, err3, err4, err5)
}

// heap asks a process for what its Go runtime has in use.
func heap(ctx context.Context, address string) (int64, error) {
	m, err := process.ReadMetrics(ctx, http.DefaultClient, "http://"+address+"/metrics")
	if err != nil {
		return 0, err
	}
	return int64(m.Sum("go_memstats_heap_inuse_bytes") + m.Sum("go_memstats_stack_inuse_bytes")), nil
}
