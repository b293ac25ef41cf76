account_id = "123456789012"
region     = "us-east-1"
zones      = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"]
owner      = "quant-desk"
controller = "main"
site_cidrs = ["10.20.0.0/16"] # the site's own networks, over the VPN

images         = { burst = "ami-0a1b2c3d4e5f60718" }
instance_types = ["p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "g6.*", "g6e.*"]

cache_bucket  = "quant-desk-elastic-cache"
usd_per_month = 20000
emails        = ["platform@example.com"]

controller_host = {
  image_id = "ami-0f9e8d7c6b5a43210"
  package  = "elastic-capacity==0.1.0"
}
