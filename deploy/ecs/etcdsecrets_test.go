package ecs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// etcdSecrets are parameters of a stack whose etcd has a private authority.
var etcdSecrets = map[string]string{
	"EtcdCaSecretArn": secretArn("ca.crt"), "EtcdCertSecretArn": secretArn("client.crt"), "EtcdKeySecretArn": secretArn("client.key"),
}

func secretArn(name string) string {
	return "arn:aws:secretsmanager:eu-1:123456789012:secret:freshet-etcd/" + name + "-AbCdEf"
}

// TestSecrets_OfEtcd: control planes get the secrets of the parameters and no others, and only the role that starts tasks can read them.
func TestSecrets_OfEtcd(t *testing.T) {
	root := parse(t, source(t))
	for name, tc := range map[string]struct {
		parameters map[string]string
		secrets    object
		readable   []any
	}{
		"a public authority": {nil, object{}, nil},
		"an authority": {
			map[string]string{"EtcdCaSecretArn": secretArn("ca.crt")}, object{"FRESHET_ETCD_TLS_CA": secretArn("ca.crt")}, []any{secretArn("ca.crt")},
		},
		"an authority and a certificate": {
			etcdSecrets,
			object{"FRESHET_ETCD_TLS_CA": secretArn("ca.crt"), "FRESHET_ETCD_TLS_CERT": secretArn("client.crt"), "FRESHET_ETCD_TLS_KEY": secretArn("client.key")},
			[]any{secretArn("ca.crt"), secretArn("client.crt"), secretArn("client.key")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := with(t, root, tc.parameters)
			require.Empty(t, s.refused())
			resources := s.resources()
			tc.secrets["FRESHET_AGENT_KEY"], tc.secrets["FRESHET_OPERATOR_KEY"], tc.secrets["FRESHET_READ_ONLY_KEY"] = "<AgentKey>", "<OperatorKey>", "<ReadOnlyKey>"
			got := object{}
			for _, e := range list(get(resources["ControlPlaneTask"], "Properties", "ContainerDefinitions", 0, "Secrets")) {
				got[get(e, "Name").(string)] = get(e, "ValueFrom")
			}
			require.Equal(t, tc.secrets, got)
			require.Len(t, list(get(resources["TaskA"], "Properties", "ContainerDefinitions", 0, "Secrets")), 1)
			for role, want := range map[string][]any{
				"ExecutionRole": append([]any{"<AgentKey>", "<OperatorKey>", "<ReadOnlyKey>"}, tc.readable...), "ControlPlaneRole": nil, "AgentRole": nil,
			} {
				var readable []any
				for _, e := range list(get(resources[role], "Properties", "Policies", 0, "PolicyDocument", "Statement")) {
					if get(e, "Action") == "secretsmanager:GetSecretValue" {
						readable = append(readable, list(get(e, "Resource"))...)
					}
				}
				require.Equal(t, want, readable, role)
			}
		})
	}
}

// TestSecrets_OfEtcdAreRefused: a certificate has a key.
func TestSecrets_OfEtcdAreRefused(t *testing.T) {
	root := parse(t, source(t))
	for _, missing := range []string{"EtcdCertSecretArn", "EtcdKeySecretArn"} {
		require.Equal(t, []string{"EtcdCertSecretArn and EtcdKeySecretArn belong together"}, with(t, root, etcdSecrets, map[string]string{missing: ""}).refused())
	}
	require.Equal(t, []string{"EtcdCaSecretArn does not match"}, with(t, root, map[string]string{"EtcdCaSecretArn": "ca.crt"}).refused())
}
