// Program kube is all of a small Kubernetes in one binary, as BusyBox is of Unix: the first argument selects the
// component. test/kube runs a cluster of them. One binary shares most of its code, so it builds and links once.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// commands are the components that use cobra.
var commands = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-proxy":              proxy.NewProxyCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	os.Args = os.Args[1:]
	switch name := os.Args[0]; name {
	case "coredns":
		dnsserver.Directives = []string{"bind", "errors", "kubernetes"}
		coremain.Run()
	case "etcd":
		etcdmain.Main(os.Args)
	default:
		command, ok := commands[name]
		if !ok {
			usage()
		}
		os.Exit(cli.Run(command()))
	}
}

func usage() {
	names := append(slices.Collect(maps.Keys(commands)), "coredns", "etcd")
	slices.Sort(names)
	fmt.Fprintf(os.Stderr, "usage: kube %s ARGUMENTS\n", strings.Join(names, "|"))
	os.Exit(2)
}
