// Command freshet-bench measures Freshet and other Kafka clusters, checks them, and computes what they cost. Benchmarks that start agents
// and control planes run the program freshet (bench/process.Freshet). Benchmarks start this program again for their helper processes.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/program"
)

const rootHelp = `Measures Freshet and other Kafka clusters, checks them, and computes what they cost.

Benchmarks of Freshet's own processes run the program freshet beside freshet-bench, or else the one in PATH; FRESHET_BINARY
names another. Every flag can also be set as FRESHET_<NAME> in the environment or as <name> in a YAML file given with
--config; flags come before environment, environment before file.`

// version is set by the build (-X main.version).
var version string

func main() { bench().Main(os.Environ) }

func bench() program.Program {
	return program.Program{
		Name: "freshet-bench", Short: "Measure Freshet and other Kafka clusters, check them, and compute what they cost", Long: rootHelp,
		Version: program.Version(version), Arguments: spreadLists, SharesVariables: true,
		Commands: func(p program.Program) []*cobra.Command {
			return []*cobra.Command{
				newRun(p), newWorker(p), newCost(p), newLatency(p), newLog(p), newGroups(p), newCatchup(p), newPerf(p), newMatrix(p), newWorkloads(p),
				newReport(p), newCompare(p), newVerify(p), newTCO(p), newModel(p), newBatches(p), newScale(p), newTenants(p),
				newCostRole(p), newGroupsRole(p), newCatchupRole(p), newCompareRole(p), newBatchesRole(p), newClusterRole(p), newScaleRole(p), newTenantsRole(p),
			}
		},
	}
}
