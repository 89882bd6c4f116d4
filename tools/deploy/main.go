// Deploy evaluates the Terraform module of deploy/ecs/terraform without Terraform, a provider or AWS. It writes the module's resources and outputs
// as JSON, so that the tests of deploy/ecs can compare them with the CloudFormation template.
//
// Attributes that AWS would set have placeholders: <aws_lb.zone["eu-central-1a"].dns_name>. Files that `terraform fmt` would change are an error.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// request is the input of the program, in JSON.
type request struct {
	// Variables are the module's input variables by name.
	Variables map[string]json.RawMessage `json:"variables"`
	// Data are attributes of data sources by address, as aws_region.current or aws_subnet.zone["eu-central-1a"].
	Data map[string]json.RawMessage `json:"data"`
	// Example, if set, is the folder of a configuration whose module block has the variables.
	Example string `json:"example"`
	// Plan makes attributes that AWS would set unknown, as they are in a plan before the first apply.
	Plan bool `json:"plan"`
}

// rendering is the output of the program.
type rendering struct {
	// Refused are the messages of validations and postconditions that failed. If a validation failed, there are no resources.
	Refused   []string            `json:"refused"`
	Resources map[string]resource `json:"resources"` // of managed and ephemeral resources, by address
	Outputs   map[string]any      `json:"outputs"`
}

// resource is an instance of a managed or ephemeral resource.
type resource struct {
	Type string `json:"type"`
	// Values are the arguments. Each nested block is an element of a list.
	Values         map[string]any `json:"values"`
	DependsOn      []string       `json:"depends_on"`
	IgnoreChanges  []string       `json:"ignore_changes"`
	PreventDestroy bool           `json:"prevent_destroy"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: deploy DIRECTORY <request.json >rendering.json")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "deploy:", err)
		os.Exit(1)
	}
}

// run renders the module in a directory.
func run(dir string, in io.Reader, out io.Writer) error {
	var req request
	decoder := json.NewDecoder(in)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&req); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	m, err := load(dir)
	if err != nil {
		return err
	}
	if err := m.set(req); err != nil {
		return err
	}
	r, err := m.render()
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}
