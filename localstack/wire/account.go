package wire

// Account is the account number of everything in the local cloud.
const Account = "000000000000"

// Region is the region of everything in the local cloud.
const Region = "us-east-1"

// Metered is a Service that counts the capacity units its calls consumed.
type Metered interface {
	// Units returns the read and write capacity units consumed since start.
	Units() (read, write float64)
}
