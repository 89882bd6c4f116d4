package main

import (
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/bench/worker"
	"github.com/freshet-io/freshet/internal/program"
)

func newWorker(p program.Program) *cobra.Command {
	var listen, zone string
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Make load for 'freshet-bench run --workers' of another machine",
		Long: `Answers 'freshet-bench run --workers', which tells it what to send and to read. It serves one run at a time, and
ends a run when it has heard nothing for a minute. There is no authentication: whoever reaches the address can let this
process send anything anywhere, so listen only where everybody is trusted.`,
		Example: "  freshet-bench worker --listen 10.0.0.7:8080",
		Args:    program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return fmt.Errorf("listen for benchmarks: %w", err)
			}
			fmt.Fprintf(p.Streams.Out, "worker listens on http://%s\n", l.Addr())
			return worker.NewServer(worker.NewLocal(zone), p.Streams.Err).Serve(cmd.Context(), l)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8080", "host:port to listen on")
	f.StringVar(&zone, "zone", "", "what stands for {zone.id} in the property client.id")
	return cmd
}
