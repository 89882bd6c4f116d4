// Command podsecurity reads Kubernetes objects as YAML from standard input and checks the pods of their templates against the Pod
// Security Standard "restricted", in its newest version. It ends with 1 and one line per violation.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

type object struct {
	Kind     string            `json:"kind"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

func main() {
	if err := check(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(in io.Reader) error {
	// The defaults pass no feature gate and check all versions of the standard.
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	source, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(source), 4096)
	var violations []error
	pods := 0
	for {
		var o object
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if len(o.Spec.Template.Spec.Containers) == 0 {
			continue
		}
		pods++
		for _, result := range evaluator.EvaluatePod(restricted, &o.Spec.Template.ObjectMeta, &o.Spec.Template.Spec) {
			if !result.Allowed {
				violations = append(violations, fmt.Errorf("%s %s: %s: %s", o.Kind, o.Metadata.Name, result.ForbiddenReason, result.ForbiddenDetail))
			}
		}
	}
	if pods == 0 {
		return errors.New("no object on standard input has a pod")
	}
	return errors.Join(violations...)
}
