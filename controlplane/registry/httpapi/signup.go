package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/controlplane/registry/password"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/metadata/id"
)

// SignUpMode is the value of --signup.
type SignUpMode string

const (
	SignUpClosed  SignUpMode = "closed"      // operators alone create accounts
	SignUpInvited SignUpMode = "invite-only" // an invitation into a team creates an account too
	SignUpOpen    SignUpMode = "open"        // anyone creates an account with a team
)

// SignUpModes are the values of --signup.
func SignUpModes() []string {
	return []string{string(SignUpClosed), string(SignUpInvited), string(SignUpOpen)}
}

// signUpKey is the name of the agent key that sign-up answers.
const signUpKey = "sign-up"

// Errors of a sign-up that --signup does not allow.
var (
	errClosed      = errors.New("this sign-up is closed: ask the operator of this control plane for a team")
	errInvitedOnly = errors.New("sign-ups need an invitation: ask a member of a team for one, or the operator of this control plane for a team")
)

// errKnownAddress is returned for a sign-up with an e-mail address that has an account.
var errKnownAddress = errors.New("the e-mail address has an account: log in, or repeat the sign-up with the same password, team and cluster for another key")

// errHasAccount is returned for a sign-up by an invitation whose e-mail address has an account. The secret of the invitation came to that address.
var errHasAccount = errors.New("the e-mail address has an account: accept the invitation with its password, without a sign-up")

// SignedUp is a new account with its team, a cluster and an agent key.
type SignedUp struct {
	Account      string      `json:"account" doc:"ID of the account."`
	Team         Team        `json:"team" doc:"The team. The account is its owner."`
	Cluster      Cluster     `json:"cluster" doc:"The virtual cluster."`
	AgentKey     NewAgentKey `json:"agent_key" doc:"Agent key of the cluster."`
	ControlPlane string      `json:"control_plane" doc:"Host and port of each control plane, with commas between them, for the setting --control-plane of agents."`
	AgentCommand string      `json:"agent_command" doc:"Command that starts an agent. Replace BUCKET, PREFIX, REGION and ZONE."`
}

type signedUpOutput struct{ Body SignedUp }

// signUpOutput has a SignedUp, or with mails a Mailed.
type signUpOutput struct {
	Status int
	Body   any
}

// signUpBody is the body of a sign-up.
type signUpBody struct {
	Email    string `json:"email" minLength:"3" maxLength:"254" doc:"E-mail address of the account."`
	Password string `json:"password" minLength:"10" maxLength:"256" doc:"Password of the account, at least 10 characters."`
	Team     string `json:"team" minLength:"1" maxLength:"200" doc:"Name of the team, at most 200 bytes."`
	Cluster  string `json:"cluster" minLength:"1" maxLength:"249" doc:"Name of the cluster: letters, digits, dots, underscores and hyphens."`
	Demo     bool   `json:"demo,omitempty" doc:"Whether the cluster is a demo, which is deleted after 24 h."`
}

type signUpInput struct{ Body signUpBody }

type signUpInvitedInput struct {
	TeamInput
	Body struct {
		Email    string `json:"email" minLength:"3" maxLength:"254" doc:"E-mail address of the account, which is the invited one."`
		Password string `json:"password" minLength:"10" maxLength:"256" doc:"Password of the account, at least 10 characters."`
		Secret   string `json:"secret" minLength:"1" maxLength:"64" doc:"Secret of the invitation."`
	}
}

type memberTeamOutput struct{ Body MemberTeam }

func (h *Handler) routeSignUp(r *router) {
	handle(h, r, "sign-up", h.signUp)
	handle(h, r, "sign-up-invited", h.signUpInvited)
}

// signUpInvited stores an account in place of an invitation. If the answer was lost, the account can log in.
func (h *Handler) signUpInvited(ctx context.Context, who *caller, in *signUpInvitedInput) (*memberTeamOutput, error) {
	if h.cfg.SignUp != SignUpInvited && h.cfg.SignUp != SignUpOpen {
		return nil, errClosed
	}
	secret := accesskey.HashOf(in.Body.Secret)
	if _, err := h.cfg.Registry.Invitation(ctx, in.Team, secret); err != nil { // before the attempt, because a secret cannot be guessed
		return nil, notFoundAs(err, errNoInvitation)
	}
	if err := h.cfg.Registry.Attempt(ctx, who.signUp()...); err != nil {
		return nil, err
	}
	hash, err := h.passwords.Hash(in.Body.Password)
	if err != nil {
		h.forgive(ctx, who.signUp()...)
		return nil, err
	}
	n := registry.NewAccount{Email: in.Body.Email, Name: nameOf(in.Body.Email), PasswordHash: hash}
	a, err := h.cfg.Registry.SignUpInvited(ctx, n, host(who.address), in.Team, secret)
	if errors.Is(err, registry.ErrTaken) {
		return nil, errHasAccount
	}
	if err != nil {
		return nil, field(err, "body.email", emailRequirement)
	}
	h.cfg.Logger.Info("account signed up by an invitation", zap.String("account", a.ID), zap.String("team", in.Team), zap.String("address", who.address))
	t, err := h.memberTeam(ctx, in.Team, a.ID)
	if err != nil {
		return nil, err
	}
	return &memberTeamOutput{t}, nil
}

// nameOf returns the name of a new account: the part of its e-mail address before the @, up to the bound of names.
func nameOf(email string) string {
	name, _, _ := strings.Cut(strings.TrimSpace(email), "@")
	return strings.ToValidUTF8(name[:min(len(name), registry.MaxNameBytes)], "")
}

// checkOpen returns an error if --signup does not let strangers create accounts.
func (h *Handler) checkOpen() error {
	switch h.cfg.SignUp {
	case SignUpOpen:
		return nil
	case SignUpInvited:
		return errInvitedOnly
	default:
		return errClosed
	}
}

// signUp stores the records of a sign-up in one transaction, and then the Spec. If a request ended in between, or its answer was lost, the same request
// with the same password gets another agent key.
func (h *Handler) signUp(ctx context.Context, who *caller, in *signUpInput) (*signUpOutput, error) {
	if err := h.checkOpen(); err != nil {
		return nil, err
	}
	if !id.ValidVirtualCluster(in.Body.Cluster) {
		return nil, clusterNameFault("body.cluster")
	}
	if err := registry.CheckName(in.Body.Team); err != nil { // before the answer depends on the account
		return nil, field(err, "body.team", nameRequirement)
	}
	if err := h.checkRoom(); err != nil {
		return nil, err
	}
	if h.cfg.Mail != nil {
		return h.requestSignUp(ctx, who, in.Body)
	}
	if err := h.cfg.Registry.Attempt(ctx, who.signUp()...); err != nil {
		return nil, err
	}
	out, err := h.signUpCounted(ctx, who, in.Body)
	if errors.Is(err, password.ErrBusy) {
		h.forgive(ctx, who.signUp()...)
	}
	if err != nil {
		return nil, err
	}
	return &signUpOutput{http.StatusCreated, out.Body}, nil
}

func (h *Handler) signUpCounted(ctx context.Context, who *caller, in signUpBody) (*signedUpOutput, error) {
	a, err := h.cfg.Registry.AccountByEmail(ctx, in.Email)
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return h.signUpAnew(ctx, who, in)
	case err != nil:
		return nil, field(err, "body.email", emailRequirement)
	}
	return h.signUpAgain(ctx, who, a, in)
}

func (h *Handler) signUpAnew(ctx context.Context, who *caller, in signUpBody) (*signedUpOutput, error) {
	hash, err := h.passwords.Hash(in.Password)
	if err != nil {
		return nil, err
	}
	out, err := h.signUpNew(ctx, who, registry.NewSignUp{
		NewAccount: registry.NewAccount{Email: in.Email, Name: nameOf(in.Email), PasswordHash: hash}, Address: host(who.address),
		Team: in.Team, ClusterID: id.NewCluster(), Cluster: in.Cluster, Demo: in.Demo,
	})
	if errors.Is(err, registry.ErrTaken) { // by a sign-up at the same time
		return nil, errKnownAddress
	}
	return out, err
}

// signUpNew stores a sign-up, and then the Spec of its cluster.
func (h *Handler) signUpNew(ctx context.Context, who *caller, n registry.NewSignUp) (*signedUpOutput, error) {
	key, err := accesskey.New(accesskey.AgentPrefix, n.ClusterID)
	if err != nil {
		return nil, err
	}
	n.KeyName, n.Key, n.KeyShown = signUpKey, accesskey.HashOf(key), key[:registry.MaxShownBytes]
	a, err := h.cfg.Registry.SignUp(ctx, n)
	if err != nil {
		return nil, field(err, "body.team", nameRequirement)
	}
	h.cfg.Logger.Info("account signed up", zap.String("account", a.ID), zap.String("cluster_id", n.ClusterID), zap.String("address", who.address))
	if err := h.settle(ctx, n.ClusterID); err != nil {
		return nil, err
	}
	return h.signedUp(ctx, a, n.ClusterID, NewAgentKey{
		AgentKey: AgentKey{ID: n.Key.Digits(), Name: n.KeyName, Shown: n.KeyShown, Created: a.Created}, Key: key,
	})
}

// signUpAgain creates an agent key of a cluster that an earlier request has created. For any other request with a known e-mail address it returns
// errKnownAddress, whatever the password is.
func (h *Handler) signUpAgain(ctx context.Context, who *caller, a *registry.Account, in signUpBody) (*signedUpOutput, error) {
	if err := h.checkPassword(ctx, who, a.Email, a, in.Password); err != nil {
		if errors.Is(err, errPassword) {
			err = errKnownAddress
		}
		return nil, err
	}
	who = &caller{account: a.ID, role: registry.Owner, address: who.address}
	for _, team := range a.Teams {
		c, err := h.earlier(ctx, a, team, in)
		if err != nil {
			return nil, err
		}
		if c == nil {
			continue
		}
		key, err := h.createAgentKey(ctx, who, c, signUpKey)
		if errors.Is(err, registry.ErrNotFound) { // the cluster was removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		return h.signedUp(ctx, a, c.ID, key)
	}
	return nil, errKnownAddress
}

// earlier returns the cluster of a sign-up in a team of the account, nil if the team has none.
func (h *Handler) earlier(ctx context.Context, a *registry.Account, team string, in signUpBody) (*registry.Cluster, error) {
	t, err := h.cfg.Registry.Team(ctx, team)
	if err != nil || t.Name != in.Team {
		return nil, ignoreNotFound(err)
	}
	m, err := h.cfg.Registry.Member(ctx, team, a.ID)
	if err != nil || m.Role != registry.Owner {
		return nil, ignoreNotFound(err)
	}
	all, err := h.cfg.Registry.Clusters(ctx, team)
	if err != nil {
		return nil, err
	}
	for _, c := range all.Records {
		if c.Name == in.Cluster && c.State == directory.Active {
			return c, nil
		}
	}
	return nil, nil
}

func ignoreNotFound(err error) error {
	if errors.Is(err, registry.ErrNotFound) {
		return nil
	}
	return err
}

func (h *Handler) signedUp(ctx context.Context, a *registry.Account, clusterID string, key NewAgentKey) (*signedUpOutput, error) {
	c, err := h.cfg.Registry.Cluster(ctx, clusterID)
	if err != nil {
		return nil, err
	}
	t, err := h.team(ctx, c.Team)
	if err != nil {
		return nil, err
	}
	planes := strings.Join(h.cfg.ControlPlanes(), ",")
	return &signedUpOutput{SignedUp{
		Account: a.ID, Team: t.Body, Cluster: h.show(ctx, c), AgentKey: key, ControlPlane: planes, AgentCommand: agentCommand(planes, key.Key),
	}}, nil
}

// agentCommand returns the command that starts an agent. The words in capitals are the tenant's.
func agentCommand(controlPlanes, key string) string {
	return "freshet agent --control-plane " + controlPlanes + " --control-plane-tls --agent-key " + key +
		" --bucket 's3://BUCKET/PREFIX?region=REGION' --zone ZONE"
}
