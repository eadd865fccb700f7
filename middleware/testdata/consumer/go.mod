// A module that protects a server and uses nothing else of Gatehouse. A test builds it
// with an empty module cache, to see what such a module has to download.
module consumer.example

go 1.25.0

require gatehouse.example v0.0.0

require github.com/go-jose/go-jose/v4 v4.1.9 // indirect

replace gatehouse.example => ../../..
