package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom lists what is in the program as CycloneDX 1.6 in JSON: each module with the hash of go.sum,
// and the standard library. The go command recorded them in the program, so nothing is left out and
// nothing is there that is only needed to build or test.
func sbom(p *program) ([]byte, error) {
	file, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(file)
	bom := cdx.NewBOM()
	bom.SpecVersion = cdx.SpecVersion1_6
	bom.SerialNumber = "urn:uuid:" + uuid(hash[:])
	whole := cdx.Component{
		BOMRef: "authz", Type: cdx.ComponentTypeApplication, Name: "authz", Version: p.version, PackageURL: purl(p.info.Main.Path, p.version),
		Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(hash[:])}},
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	bom.Metadata = &cdx.Metadata{Timestamp: p.committed.UTC().Format(time.RFC3339), Component: &whole}
	components := []cdx.Component{{
		BOMRef: "std", Type: cdx.ComponentTypeLibrary, Name: "std", Version: p.info.GoVersion, PackageURL: purl("std", strings.TrimPrefix(p.info.GoVersion, "go")),
	}}
	needs := []string{"std"}
	for _, m := range p.info.Deps {
		c, err := component(m)
		if err != nil {
			return nil, err
		}
		components, needs = append(components, c), append(needs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: whole.BOMRef, Dependencies: &needs}}
	var out bytes.Buffer
	err = cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return out.Bytes(), err
}

// component is one module.
func component(m *debug.Module) (cdx.Component, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil || len(sum) != sha256.Size {
		return cdx.Component{}, fmt.Errorf("the program has no hash of %s", m.Path)
	}
	url := purl(m.Path, m.Version)
	return cdx.Component{
		BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}},
	}, nil
}

// purl is the name of a Go module among packages of all kinds: lower case, as its type golang
// demands, and with the plus of a version escaped.
func purl(path, version string) string {
	return "pkg:golang/" + strings.ToLower(path) + "@" + strings.ReplaceAll(version, "+", "%2B")
}

// uuid is one of version 8, made of a hash (RFC 9562 section 5.8).
func uuid(hash []byte) string {
	u := bytes.Clone(hash[:16])
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
