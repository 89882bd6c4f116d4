// Command freshet is all of Freshet in one binary: a Kafka-compatible broker whose only storage is an object store.
// `freshet dev` runs everything in one process; `freshet agent` and `freshet controlplane` are its parts for a real
// set-up; `freshet topic`, `produce` and `consume` are a small client. This package turns flags, environment and file
// into the configuration of the parts and runs them; it has no behaviour of its own.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/program"
)

const rootHelp = `Freshet is a Kafka-compatible broker whose only storage is an object store.

Try it:
  freshet dev                                  everything in one process, on localhost:9092
  freshet topic create lines --partitions 3
  seq 10 | freshet produce lines
  freshet consume lines --from earliest --exit-at-end

Any Kafka client works as well. Every flag can also be set as FRESHET_<NAME> in the environment or as <name> in a
YAML file given with --config; flags come before environment, environment before file.`

// version is set by the build (-X main.version).
var version string

func main() { freshet().Main(os.Environ) }

func freshet() program.Program {
	return program.Program{
		Name: "freshet", Short: "A Kafka-compatible broker whose only storage is an object store", Long: rootHelp, Version: program.Version(version),
		Explain: nameListener,
		Commands: func(p program.Program) []*cobra.Command {
			return []*cobra.Command{
				newDev(p), newAgent(p), newControlPlane(p), newStatus(p),
				newTopic(p), newGroup(p), newProduce(p), newConsume(p), newBucket(p), newBundle(p), newKey(p), newCluster(p), newJob(p), newZone(p), newCtl(p), newHealth(),
			}
		},
	}
}
