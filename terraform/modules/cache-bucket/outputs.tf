output "bucket" {
  description = "Name of the bucket, for `juicefs format --storage s3`."
  value       = aws_s3_bucket.cache.bucket
}

output "bucket_arn" {
  description = "For the node role."
  value       = aws_s3_bucket.cache.arn
}
