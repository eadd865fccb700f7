package conformance

import (
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// workflow is what is looked at in a workflow file.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Steps []struct {
			Uses, Run string
			With      map[string]any
		}
	}
}

// TestWorkflow wants the public check to run what everybody runs: scripts/test with the Go of
// the Dockerfile, and the tests with the Go of go.mod. Its permission is to read the
// repository.
func TestWorkflow(t *testing.T) {
	var w workflow
	if err := yaml.Unmarshal([]byte(read(t, ".github/workflows/test.yml")), &w); err != nil {
		t.Fatal(err)
	}
	if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
		t.Errorf("the permissions are %v, want contents: read alone", w.Permissions)
	}
	ran := map[string]any{}
	for _, job := range w.Jobs {
		var version any
		for _, step := range job.Steps {
			if step.Uses != "" && !regexp.MustCompile(`^actions/[a-z-]+@v[0-9]+$`).MatchString(step.Uses) {
				t.Errorf("%s is no action with a version", step.Uses)
			}
			if strings.HasPrefix(step.Uses, "actions/setup-go@") {
				version = step.With
			}
			ran[step.Run] = version
		}
	}
	image := regexp.MustCompile(`(?m)^FROM golang:([0-9.]+) AS build$`).FindStringSubmatch(read(t, "Dockerfile"))
	if image == nil {
		t.Fatal("the Dockerfile names no version of Go")
	}
	if with, _ := ran["scripts/test"].(map[string]any); with["go-version"] != image[1]+".x" {
		t.Errorf("scripts/test runs with %v, the Dockerfile has Go %s", with, image[1])
	}
	if with, _ := ran["go test ./..."].(map[string]any); with["go-version-file"] != "go.mod" {
		t.Errorf("go test ./... runs with %v, not with the Go of go.mod", with)
	}
}
