package chart

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// object is what the checks read of a rendered object of any kind.
type object struct {
	Kind     string
	Metadata struct {
		Name      string
		Namespace string
		Labels    map[string]string
	}
	Spec struct {
		Replicas *int
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template    template
		PodSelector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"podSelector"`
		Ingress []ingress
		Ports   []servicePort

		SecretTargetRef []entry `yaml:"secretTargetRef"` // of KEDA

		MaxUnavailable             any    `yaml:"maxUnavailable"`
		UnhealthyPodEvictionPolicy string `yaml:"unhealthyPodEvictionPolicy"`
	}
}

type servicePort struct {
	Port       int
	TargetPort any `yaml:"targetPort"`
	NodePort   int `yaml:"nodePort"`
}

type template struct {
	Metadata struct{ Labels map[string]string }
	Spec     struct {
		EnableServiceLinks            *bool `yaml:"enableServiceLinks"`
		TerminationGracePeriodSeconds int   `yaml:"terminationGracePeriodSeconds"`
		Containers                    []container
	}
}

type container struct {
	Name string
	Args []string
	Env  []struct {
		Name      string
		Value     string
		ValueFrom struct {
			SecretKeyRef *entry `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	StartupProbe   *probe `yaml:"startupProbe"`
	LivenessProbe  *probe `yaml:"livenessProbe"`
	ReadinessProbe *probe `yaml:"readinessProbe"`
	Lifecycle      struct {
		PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
	}
	Resources struct{ Requests map[string]string }
}

// entry is an entry of a Secret.
type entry struct {
	Name, Key string
	Optional  bool
}

type probe struct {
	HTTPGet          struct{ Path string } `yaml:"httpGet"`
	PeriodSeconds    int                   `yaml:"periodSeconds"`
	TimeoutSeconds   int                   `yaml:"timeoutSeconds"`
	FailureThreshold int                   `yaml:"failureThreshold"`
}

func objects(t *testing.T, rendered string) (all []object) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(rendered))
	for {
		var o object
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if o.Kind != "" { // a document of comments only
			all = append(all, o)
		}
	}
	require.NotEmpty(t, all)
	return all
}

// checkObjects checks what holds for every render.
func checkObjects(t *testing.T, name string, all []object) {
	t.Helper()
	seen := map[string]bool{}
	for _, o := range all {
		require.NotEqual(t, "Secret", o.Kind, "the chart takes secrets by name only")
		key := o.Kind + " " + o.Metadata.Name
		require.False(t, seen[key], "two of %s", key)
		seen[key] = true
		require.LessOrEqual(t, len(o.Metadata.Name), 63)
		switch o.Kind {
		case "PodDisruptionBudget":
			require.Equal(t, 1, o.Spec.MaxUnavailable, key)
			require.Equal(t, "AlwaysAllow", o.Spec.UnhealthyPodEvictionPolicy, key)
		case "Deployment":
			if name != "zones.values.yaml" { // one of its zones has a number
				require.Nil(t, o.Spec.Replicas, "%s: kubectl scale would not last", key)
			}
			checkPods(t, key, o)
		case "StatefulSet":
			require.NotNil(t, o.Spec.Replicas)
			checkPods(t, key, o)
		default:
			require.Empty(t, o.Spec.Template.Spec.Containers, "pods of a kind that is not checked: %s", key)
		}
	}
}

var confidential = regexp.MustCompile(`(?i)key|secret|token|password`)

func checkPods(t *testing.T, key string, o object) {
	t.Helper()
	for label, value := range o.Spec.Selector.MatchLabels {
		require.Equal(t, value, o.Spec.Template.Metadata.Labels[label], key)
	}
	pod := o.Spec.Template.Spec
	require.NotNil(t, pod.EnableServiceLinks, key)
	require.False(t, *pod.EnableServiceLinks, key)
	require.NotEmpty(t, pod.Containers, key)
	for _, c := range pod.Containers {
		require.NotEmpty(t, c.Resources.Requests["cpu"], key)
		require.NotEmpty(t, c.Resources.Requests["memory"], key)
		for _, e := range c.Env {
			require.False(t, e.Value != "" && confidential.MatchString(e.Name), "%s: %s has a value", key, e.Name)
		}
		checkProbes(t, key, c)
		for _, arg := range c.Args {
			drain, ok := strings.CutPrefix(arg, "--drain-timeout=")
			if !ok {
				continue
			}
			d, err := time.ParseDuration(drain)
			require.NoError(t, err)
			require.Greater(t, pod.TerminationGracePeriodSeconds, int(d.Seconds())+c.Lifecycle.PreStop.Sleep.Seconds, key)
		}
	}
}

func checkProbes(t *testing.T, key string, c container) {
	t.Helper()
	require.NotNil(t, c.StartupProbe, key)
	require.NotNil(t, c.LivenessProbe, key)
	require.NotNil(t, c.ReadinessProbe, key)
	require.NotEqual(t, *c.StartupProbe, *c.LivenessProbe, key)
	require.NotEqual(t, *c.ReadinessProbe, *c.LivenessProbe, key)
	require.NotEqual(t, *c.StartupProbe, *c.ReadinessProbe, key)
	require.Equal(t, "/livez", c.LivenessProbe.HTTPGet.Path, "%s: a restart cures no fault of another part", key)
	require.NotEqual(t, c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path, key)
}
