package compose

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

const (
	dir   = "../../deploy/compose/"
	local = "localhost/freshet:compose" // the image that Compose builds
)

// load returns the project of deploy/compose with the settings of .env.
func load(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{dir + "compose.yaml"}, cli.WithWorkingDirectory(dir), cli.WithEnvFiles(dir+".env"), cli.WithDotEnv)
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return project
}

// read returns the text of a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + name)
	require.NoError(t, err)
	return string(text)
}

func TestProject_ImagesArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`^[a-z0-9.-]+\.[a-z]+/[a-z0-9/-]+:v?[0-9]+\.[0-9]+\.[0-9]+(-alpine)?$`)
	for name, service := range load(t).Services {
		if service.Build != nil {
			require.Equal(t, local, service.Image, name)
			require.FileExists(t, service.Build.Context+"/"+service.Build.Dockerfile, name)
			continue
		}
		require.Regexp(t, pinned, service.Image, name)
	}
}

func TestProject_ListensOnThisMachineAlone(t *testing.T) {
	for name, service := range load(t).Services {
		for _, port := range service.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, "%s: port %s", name, port.Published)
		}
		require.Empty(t, service.NetworkMode, name)
	}
}

// TestProject_SettingsAreKnown compares FRESHET_ variables with docs/configuration.md, which is generated from the program's flags.
func TestProject_SettingsAreKnown(t *testing.T) {
	for name, service := range load(t).Services {
		if service.Image != local {
			continue
		}
		require.Len(t, service.Command, 1, name)
		own := settings(t, service.Command[0])
		for variable := range service.Environment {
			if setting, ours := strings.CutPrefix(variable, "FRESHET_"); ours && !ofCommands(setting) {
				flag := strings.ToLower(strings.ReplaceAll(setting, "_", "-"))
				require.Regexp(t, "\n\\| `--"+flag+"[ `]", own, "%s: %s", name, variable)
			}
		}
	}
}

// settings returns the table of a command's flags.
func settings(t *testing.T, command string) string {
	t.Helper()
	_, own, ok := strings.Cut(read(t, "docs/configuration.md"), "\n## freshet "+command+"\n")
	require.True(t, ok, "command %q", command)
	own, _, _ = strings.Cut(own, "\n## ")
	return own
}

// ofCommands reports whether a setting is for commands that run in the container, such as "freshet status".
func ofCommands(setting string) bool {
	return slices.Contains([]string{"CONTROL_PLANE_HTTP", "BOOTSTRAP_SERVER"}, setting)
}

// TestProject_PartsFindEachOther checks that each address in the settings is that of a service, at a port on which it listens.
func TestProject_PartsFindEachOther(t *testing.T) {
	project := load(t)
	address := regexp.MustCompile(`\b([a-z]+(?:-[a-z0-9])?):([0-9]{4})\b`)
	listens := map[string][]string{
		"agent":   {"9292", "9296", "9300", "9192", "8080"},
		"control": {"7050", "8090"},
		"etcd":    {"2379", "2380"},
		"store":   {"7480"},
	}
	texts := map[string]string{"haproxy.cfg": read(t, "deploy/compose/haproxy.cfg"), "prometheus.yaml": read(t, "deploy/compose/prometheus.yaml")}
	for name, service := range project.Services {
		for variable, value := range service.Environment {
			texts[name+" "+variable] = *value
		}
	}
	for where, text := range texts {
		for _, found := range address.FindAllStringSubmatch(text, -1) {
			kind, _, _ := strings.Cut(found[1], "-")
			require.Contains(t, project.Services, found[1], "%s: %s", where, found[0])
			require.Contains(t, listens[kind], found[2], "%s: %s", where, found[0])
		}
	}
}

// TestProject_HasTwoBuckets checks that control planes do not know the bucket of the agents, and that each bucket is a volume of the store.
func TestProject_HasTwoBuckets(t *testing.T) {
	project := load(t)
	var volumes []string
	for _, v := range project.Services["store"].Volumes {
		volumes = append(volumes, v.Source+" at "+v.Target)
	}
	for name, service := range project.Services {
		if service.Image != local {
			continue
		}
		own, of, not := "records", "FRESHET_BUCKET", "FRESHET_STATE_BUCKET"
		if service.Command[0] == "controlplane" {
			own, of, not = "state", not, of
		}
		require.NotContains(t, service.Environment, not, name)
		require.Contains(t, *service.Environment[of], "s3://"+own+"/", name)
		require.Contains(t, volumes, own+" at /buckets/"+own, name)
	}
}

// TestProject_ZonesHaveLoadBalancers checks that the addresses that clients on the machine see lead to the zone's agents.
func TestProject_ZonesHaveLoadBalancers(t *testing.T) {
	project := load(t)
	balancer := project.Services["balancer"]
	config := read(t, "deploy/compose/haproxy.cfg")
	zones := strings.Split("a b c", " ")
	require.Len(t, balancer.Ports, len(zones))
	for i, zone := range zones {
		agent := project.Services["agent-"+zone]
		require.Equal(t, zone, *agent.Environment["FRESHET_ZONE"])
		require.Equal(t, "9292="+strings.Join(zones, ","), *agent.Environment["FRESHET_ZONE_LISTENERS"])
		port := balancer.Ports[i]
		shared := fmt.Sprintf("host/%s=%s", zone, net.JoinHostPort(port.HostIP, port.Published))
		require.Contains(t, strings.Split(*agent.Environment["FRESHET_SHARED_ADVERTISE"], ","), shared)
		require.Contains(t, *agent.Environment["FRESHET_KAFKA_LISTEN"], "host=:9192")
		require.Contains(t, config, fmt.Sprintf("listen %s\n  bind :%d\n  server-template agent 5 agent-%s:9192\n", zone, port.Target, zone))
	}
}

// TestProject_WaitsForHealth checks that a service starts after the services that it needs, which have health checks.
func TestProject_WaitsForHealth(t *testing.T) {
	project := load(t)
	needs := map[string][]string{
		"agent":    {"control-1", "control-2"},
		"control":  {"etcd-1", "etcd-2", "etcd-3", "store"},
		"balancer": {"agent-a", "agent-b", "agent-c"},
	}
	require.Contains(t, settings(t, "agent"), "`--http-listen string` | `:8080`")
	require.Contains(t, settings(t, "controlplane"), "`--http-listen string` | `:8090`")
	require.Contains(t, settings(t, "controlplane"), "`--grpc-listen string` | `:7050`")
	health := map[string]string{"agent": "http://127.0.0.1:8080/readyz", "control": "http://127.0.0.1:8090/readyz"}
	for name, service := range project.Services {
		kind, _, _ := strings.Cut(name, "-")
		var found []string
		for dependency, how := range service.DependsOn {
			require.Equal(t, types.ServiceConditionHealthy, how.Condition, name)
			require.NotNil(t, project.Services[dependency].HealthCheck, dependency)
			found = append(found, dependency)
		}
		require.ElementsMatch(t, needs[kind], found, name)
		if url, ok := health[kind]; ok {
			require.Equal(t, types.HealthCheckTest{"CMD", "/freshet", "health", url}, service.HealthCheck.Test, name)
		}
	}
}
