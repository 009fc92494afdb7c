@group(0) @binding(4) var<storage, read_write> v17: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn bias_gradient_f32_weighted(@builtin(workgroup_id) v184: vec3<u32>, @builtin(num_workgroups) v186: vec3<u32>, @builtin(local_invocation_index) v193: u32) {
let v223 = &v17;
let v224 = &v13;
let v225 = &v9;
let v226 = &v5;
let v227 = &v1;
let v89 = info_var.static_meta[4];
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v185 = v184[2];
let v93 = u32(v185);
let v187 = v186[1];
let v95 = u32(v187);
let v96 = v93 * v95;
let v188 = v186[0];
let v98 = u32(v188);
let v99 = v96 * v98;
let v189 = v184[1];
let v101 = u32(v189);
let v104 = v101 * v98;
let v105 = v99 + v104;
let v191 = v184[0];
let v107 = u32(v191);
let v108 = v105 + v107;
let v219 = u32(64);
let v111 = v108 * v219;
let v194 = v193;
let v113 = u32(v194);
let v114 = v111 + v113;
let v25 = v114 < v89;
if v25 {
let v27 = v114 / v21;
let v29 = v114 % v21;
let v30 = f32(0.0);
let v31 = vec4<f32>(v30);
var<function> v90_store: vec4<f32>;
let v90 = &v90_store;
*v90 = v31;
let v36 = &(*v225)[v27];
let v37 = *v36;
let v38 = u32(v37);
let v39 = u32(1);
let v40 = v27 + v39;
let v44 = &(*v225)[v40];
let v45 = *v44;
let v46 = u32(v45);
for(var v48: u32 = v38; v48 < v46; v48 += v39) {
let v53 = &(*v226)[v48];
let v54 = *v53;
let v55 = u32(v54);
let v56 = v55 / v22;
let v57 = v56 * v21;
let v58 = v57 + v29;
let v62 = &(*v227)[v58];
let v63 = *v62;
let v73 = &(*v224)[v55];
let v74 = *v73;
let v75 = vec4<f32>(v74);
let v76 = *v90;
let v77 = fma(v75, v63, v76);
*v90 = v77;

}
let v82 = &(*v223)[v114];
let v83 = *v90;
*v82 = v83;

}
return;

}
