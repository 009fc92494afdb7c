@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 6>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn weight_gradient_naive_f32_dense(@builtin(workgroup_id) v70: vec3<u32>, @builtin(local_invocation_id) v73: vec3<u32>) {
let v78 = &v9;
let v79 = &v5;
let v80 = &v1;
let v3 = u32(0);
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v16 = info_var.scalars_usize[3];
let v71 = v70[0];
let v72 = u32(64);
let v20 = v71 * v72;
let v74 = v73[0];
let v22 = v20 + v74;
let v23 = u32(v22);
let v75 = v70[1];
let v25 = u32(v75);
let v76 = v70[2];
let v27 = u32(v76);
let v29 = v23 < v14;
if v29 {
let v30 = f32(0.0);
var<function> v68_store: f32;
let v68 = &v68_store;
*v68 = v30;
let v34 = u32(1);
for(var v35: u32 = v3; v35 < v16; v35 += v34) {
let v37 = v35 * v13;
let v38 = v37 + v25;
let v42 = &(*v80)[v38];
let v43 = *v42;
let v44 = v35 * v14;
let v45 = v44 + v23;
let v49 = &(*v79)[v45];
let v50 = *v49;
let v51 = *v68;
let v52 = fma(v43, v50, v51);
*v68 = v52;

}
let v55 = v27 * v13;
let v56 = v55 + v25;
let v57 = v56 * v14;
let v58 = v57 + v23;
let v62 = &(*v78)[v58];
let v63 = *v68;
*v62 = v63;

}
return;

}
