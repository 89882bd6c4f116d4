package program

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBuildVersion(t *testing.T) {
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	modified := func(value string) debug.BuildSetting { return debug.BuildSetting{Key: "vcs.modified", Value: value} }
	for _, c := range []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"no build info", nil, "dev"},
		{"empty build info", &debug.BuildInfo{}, "dev"},
		{"module version", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		{
			"module version before the revision",
			&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{revision, modified("true")}},
			"v1.2.3",
		},
		{"no module version", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "dev"},
		{
			"clean revision",
			&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{revision, modified("false")}},
			"0123456789ab",
		},
		{
			"modified revision",
			&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{modified("true"), revision}},
			"0123456789ab-dirty",
		},
		{"short revision", &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "42"}}}, "42"},
		{"modified without a revision", &debug.BuildInfo{Settings: []debug.BuildSetting{modified("true")}}, "dev"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, buildVersion(c.info))
		})
	}
}
