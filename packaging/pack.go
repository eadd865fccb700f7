package main

import (
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the formats
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// pack makes one package out of the folder stage and returns its path.
func (j job) pack(format, stage string, p *program) (path string, err error) {
	info, err := j.described(format, stage, p)
	if err != nil {
		return "", err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", err
	}
	path = filepath.Join(j.out, packager.ConventionalFileName(info))
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return path, packager.Package(info, file)
}

// description is the file that describes both packages.
//
//go:embed nfpm.yaml
var description string

// described is the description for one format, with what the program says of itself. Every file
// has the time of the commit.
func (j job) described(format, stage string, p *program) (*nfpm.Info, error) {
	config, err := nfpm.ParseWithEnvMapping(strings.NewReader(description), func(name string) string {
		return map[string]string{"STAGE": stage, "VERSION": p.version, "ARCH": p.arch}[name]
	})
	if err != nil {
		return nil, err
	}
	info, err := config.Get(format)
	if err != nil {
		return nil, err
	}
	info.MTime = p.committed
	scripts := filepath.Join(j.repository, "packaging")
	for _, script := range []*string{&info.Scripts.PostInstall, &info.Scripts.PreRemove, &info.Scripts.PostRemove} {
		*script = filepath.Join(scripts, *script)
	}
	info = nfpm.WithDefaults(info)
	return info, nfpm.PrepareForPackager(info, format)
}
