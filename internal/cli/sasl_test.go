package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestSASL_Options(t *testing.T) {
	for _, mechanism := range []string{saslPlain, saslScram256, saslScram512} {
		t.Run(mechanism, func(t *testing.T) {
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser(mechanism, "me", "secret"))
			require.NoError(t, err)
			defer cluster.Close()
			ping := func(password string) error {
				opts, err := (&SASL{mechanism: mechanism, username: "me", password: password}).Options()
				require.NoError(t, err)
				client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(cluster.ListenAddrs()...))...)
				require.NoError(t, err)
				defer client.Close()
				return client.Ping(t.Context())
			}
			require.NoError(t, ping("secret"))
			require.Error(t, ping("wrong"))
		})
	}
	_, err := (&SASL{username: "me"}).Options()
	require.EqualError(t, err, "--sasl-username and --sasl-password come together")
}
