package controlplane

import (
	"context"
	"fmt"

	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/controlplane/registry/expiry"
	"github.com/freshet-io/freshet/controlplane/registry/httpapi"
	"github.com/freshet-io/freshet/controlplane/registry/mail"
)

// listenPublic opens the address of the HTTP API for tenants, if there is one. Every replica serves the API, with or without ownership, because
// its records are in etcd.
func (c *ControlPlane) listenPublic(ctx context.Context, set *keys.Set) error {
	if c.cfg.PublicListen == "" {
		return nil
	}
	c.expiry = expiry.New(expiry.Config{
		Registry: c.registry(), Directory: c.directory(), Bucket: c.bucket, Snapshots: SnapshotPrefix, Idle: c.contacts.idle, Log: c.cfg.Log, Registerer: c.cfg.Registry,
	})
	config := httpapi.Config{
		Registry:  c.registry(),
		Directory: c.directory(), Logger: c.cfg.Log,
		Operator: func(key string) bool {
			g := set.Grant(key)
			return g != nil && g.Kind == keys.Operator
		},
		Crowded: c.crowded, EtcdCrowded: c.etcdCrowded, EtcdFull: c.etcdFull,
		SignUp: c.cfg.SignUp, ControlPlanes: c.members.Replicas, TrustedProxies: c.cfg.TrustedProxies, Purge: c.expiry.Wake, URL: c.cfg.PublicURL,
	}
	if c.cfg.MailServer != nil {
		c.mails = mail.New(mail.Config{Server: c.cfg.MailServer, Log: c.cfg.Log, Registerer: c.cfg.Registry})
		config.Mail = c.mails
	}
	handler, err := httpapi.New(config)
	if err != nil {
		return err
	}
	c.public, err = httpapi.NewServer(httpapi.ServerConfig{
		Address: c.cfg.PublicListen, TLS: c.cfg.PublicTLS, Handler: handler, Log: c.cfg.Log, Registerer: c.cfg.Registry,
	})
	if err != nil {
		return fmt.Errorf("--public-listen: %w", err)
	}
	return c.public.Listen(ctx)
}

// etcdCrowded reports whether the HTTP API creates nothing but agent keys and API tokens.
func (c *ControlPlane) etcdCrowded() bool { return c.space.crowded() != nil }

// etcdFull reports whether the HTTP API creates nothing at all: the rest of etcd's quota is for logs and leases.
func (c *ControlPlane) etcdFull() bool { return c.space.fullness() >= stopFrom }

func (c *ControlPlane) registry() *registry.Registry {
	return registry.New(registry.Config{Client: c.cfg.Etcd, Prefix: c.cfg.EtcdPrefix, MaxHosted: c.cfg.MaxHosted})
}
