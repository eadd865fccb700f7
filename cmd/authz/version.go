package main

import (
	"fmt"
	"runtime/debug"
)

type versionVerb struct{}

// Run prints the version that the build recorded.
func (versionVerb) Run(p *program) error {
	_, err := fmt.Fprintln(p.stdout, "authz", version())
	return err
}

// version returns the version of the module, or its commit, and the Go release that built it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	name := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (name == "" || name == "(devel)") {
			name = s.Value
		}
	}
	if name == "" || name == "(devel)" {
		name = "devel"
	}
	return name + " " + info.GoVersion
}
